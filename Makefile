# The short way to everything; meson does the work. `make help` lists the targets.
BUILD ?= build
.PHONY: build
build: $(BUILD)/build.ninja
	ninja -C $(BUILD)
$(BUILD)/build.ninja:
	meson setup $(BUILD)
