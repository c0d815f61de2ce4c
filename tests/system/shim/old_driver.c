/* A driver that is too old for a pool: it lacks nearly everything. */
int cuInit(unsigned flags);
int cuInit(unsigned flags)
{
    return 0;
}
