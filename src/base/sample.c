#include "base/sample.h"

#include <assert.h>
#include <stdlib.h>

static int by_value(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

double sample_quantile(double *values, size_t count, double share)
{
    assert(count > 0 && share >= 0 && share <= 1);
    qsort(values, count, sizeof *values, by_value);
    return values[(size_t)(share * (double)(count - 1))];
}
