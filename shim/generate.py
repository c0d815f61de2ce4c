#!/usr/bin/env python3
"""Makes, from the list of the driver's symbols, what the shim's build needs.

    generate.py header SYMBOLS          symbols.h: the list as an X-macro, in order
    generate.py trampolines SYMBOLS     trampolines.S: the exported functions and their slots
    generate.py exports SYMBOLS HEADER  exports.map: the version script; HEADER is vrampool.h;
                                        more names may follow
    generate.py recorder SYMBOLS        a library whose functions record their arguments, for tests

Each exported function is one jump through its slot. A slot first leads to the resolver, which keeps
every argument register, has shim_load load the real library and fill the slots, and jumps on."""
import re
import sys

INTEGERS = ["rdi", "rsi", "rdx", "rcx", "r8", "r9"]


def read_symbols(path):
    with open(path, encoding="utf-8") as lines:
        names = [line.split("#")[0].strip() for line in lines]
    names = [name for name in names if name]
    if names != sorted(set(names)):
        sys.exit(f"{path}: not sorted, or a name twice")
    wrong = [name for name in names if not re.fullmatch(r"cu[A-Z]\w*", name)]
    if wrong:
        sys.exit(f"{path}: not a driver symbol: {wrong[0]}")
    return names


def header(names):
    yield "/* Generated from symbols.txt: every symbol that the driver exports, sorted. */"
    yield "#define SHIM_SYMBOLS(X) \\"
    yield from (f"    X({name}) \\" for name in names)
    yield ""


def exports(names, api, *more):
    with open(api, encoding="utf-8") as text:
        calls = re.findall(r"^VP_API [^;(]*?(vp_\w+)\(", text.read(), re.MULTILINE)
    yield "{ global:"
    yield from (f"    {name};" for name in names + sorted(calls) + list(more))
    yield "  local: *; };"


def function(name, body):
    return [f".globl {name}", f".type {name}, %function", ".balign 16", f"{name}:", *body,
            f".size {name}, . - {name}"]


def x86_trampoline(index):
    return [" endbr64", f" jmp *shim_slots+{8 * index}(%rip)"]


def x86_resolver(count):
    for index in range(count):
        yield f".Lresolve{index}: endbr64; pushq ${index}; jmp .Lresolve"
    # Stack: the symbol's number, the caller's return address. The number's place takes the target.
    yield ".Lresolve: pushq %rbp; movq %rsp, %rbp"
    saved = INTEGERS + ["rax", "r10"]
    yield from (f" pushq %{register}" for register in saved)
    yield " subq $136, %rsp"
    yield from (f" movups %xmm{i}, {16 * i}(%rsp)" for i in range(8))
    yield " movl 8(%rbp), %edi; call shim_load; movq %rax, 8(%rbp)"
    yield from (f" movups {16 * i}(%rsp), %xmm{i}" for i in range(8))
    yield " addq $136, %rsp"
    yield from (f" popq %{register}" for register in reversed(saved))
    yield " popq %rbp; popq %r11; jmp *%r11"


def arm_trampoline(index):
    return [" hint 34", f" adrp x16, shim_slots+{8 * index}",
            f" add x16, x16, :lo12:shim_slots+{8 * index}", " ldar x16, [x16]", " br x16"]


def arm_resolver(count):
    for index in range(count):
        yield f".Lresolve{index}: hint 34; mov w17, #{index}; b .Lresolve"
    pairs = [(f"x{i}", f"x{i + 1}", 16 + 8 * i) for i in (0, 2, 4, 6)]
    pairs += [(f"q{i}", f"q{i + 1}", 96 + 16 * i) for i in (0, 2, 4, 6)]
    yield ".Lresolve: stp x29, x30, [sp, #-224]!; mov x29, sp; str x8, [sp, #80]"
    yield from (f" stp {a}, {b}, [sp, #{at}]" for a, b, at in pairs)
    yield " mov w0, w17; bl shim_load; mov x16, x0"
    yield from (f" ldp {a}, {b}, [sp, #{at}]" for a, b, at in pairs)
    yield " ldr x8, [sp, #80]; ldp x29, x30, [sp], #224; br x16"


def by_machine(x86, arm):
    yield "#if defined(__x86_64__)"
    yield from x86
    yield "#elif defined(__aarch64__)"
    yield from arm
    yield "#else"
    yield '#error "no trampolines for this processor"'
    yield "#endif"


def code(names, trampoline, resolver):
    for index, name in enumerate(names):
        yield from function(name, trampoline(index))
    yield from resolver(len(names))


def trampolines(names):
    yield "/* Generated from symbols.txt: the exported functions and the slots behind them. */"
    yield ".text"
    yield from by_machine(code(names, x86_trampoline, x86_resolver),
                          code(names, arm_trampoline, arm_resolver))
    yield from [".data", ".balign 8", ".hidden shim_slots", ".globl shim_slots",
                ".type shim_slots, %object", "shim_slots:"]
    yield from (f" .quad .Lresolve{index}" for index in range(len(names)))
    yield f".size shim_slots, {8 * len(names)}"
    # By this note driver_find knows the shim's file (DRIVER_SHIM_NOTE).
    note = "vrampool-shim"
    yield from ['.section .note.vrampool, "a", %note', ".balign 4", f".long {len(note) + 1}, 0, 1",
                f'.asciz "{note}"', ".balign 4", '.section .note.GNU-stack, "", %progbits']


def recorder(names):
    """Each function writes its number and its arguments to `recorded`, then ends in record_call."""
    yield "/* Generated from symbols.txt: a driver whose functions record their arguments. */"
    yield ".text"
    x86 = []
    for index, name in enumerate(names):
        x86 += function(name, [" endbr64", f" movl ${index}, %eax", " jmp .Lrecord"])
    x86 += [".Lrecord: leaq recorded(%rip), %r11", " movl %eax, (%r11)"]
    x86 += [f" movq %{register}, {8 + 8 * i}(%r11)" for i, register in enumerate(INTEGERS)]
    for i in range(10):
        x86 += [f" movq {8 + 8 * i}(%rsp), %r10", f" movq %r10, {56 + 8 * i}(%r11)"]
    x86 += [f" movsd %xmm{i}, {136 + 8 * i}(%r11)" for i in range(8)]
    x86 += [" movl %eax, %edi", " jmp record_call"]
    arm = []
    for index, name in enumerate(names):
        arm += function(name, [" hint 34", f" mov w16, #{index}", " b .Lrecord"])
    arm += [".Lrecord: adrp x17, recorded", " add x17, x17, :lo12:recorded", " str w16, [x17]"]
    arm += [f" str x{i}, [x17, #{8 + 8 * i}]" for i in range(8)]
    for i in range(8):
        arm += [f" ldr x9, [sp, #{8 * i}]", f" str x9, [x17, #{72 + 8 * i}]"]
    arm += [f" str d{i}, [x17, #{136 + 8 * i}]" for i in range(8)]
    arm += [" mov w0, w16", " b record_call"]
    yield from by_machine(x86, arm)
    yield '.section .note.GNU-stack, "", %progbits'


def main(kind, symbols, *rest):
    names = read_symbols(symbols)
    kinds = {"header": header, "trampolines": trampolines, "exports": exports, "recorder": recorder}
    print("\n".join(kinds[kind](names, *rest)))


if __name__ == "__main__":
    main(*sys.argv[1:])
