/* What runpath_outer.c loads. */
int runpath_answer(void);
int runpath_answer(void)
{
    return 42;
}
