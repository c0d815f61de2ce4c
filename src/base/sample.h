/* sample: order statistics of measured values.
 *
 * One definition for all that measures: the quantile `share` of n sorted values is the one with
 * index share × (n - 1), rounded down. So each quantile is a value that was measured, and the
 * median of an even number is the lower of the two in the middle. */
#ifndef BASE_SAMPLE_H
#define BASE_SAMPLE_H

#include <stddef.h>

/* Sorts, least first, and returns the quantile. There is at least one value, and 0 <= share <= 1.
 */
double sample_quantile(double *values, size_t count, double share);

static inline double sample_median(double *values, size_t count)
{
    return sample_quantile(values, count, 0.5);
}

#endif
