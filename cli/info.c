/* `vrampool info`: to come. */
#include "cli.h"
int cli_info(int argc, char **argv)
{
    return 0;
}
