/* A library that a program finds by its own RUNPATH alone. */
extern const char plugin_name[];
const char plugin_name[] = "found";
