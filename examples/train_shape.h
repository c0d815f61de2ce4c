/* train: the sizes of its network, and the arithmetic of one element. The kernels for cards
 * (train_kernels.cu) and those for the emulator (train_emu.c) both include this, so that they
 * compute the same. */
#ifndef TRAIN_SHAPE_H
#define TRAIN_SHAPE_H

#include <math.h>

#ifdef __CUDACC__
#define EACH __device__ static __forceinline__
#else
#define EACH static inline
#endif

/* Each layer's matrix is 2 MiB, and AdamW touches four of that size at once, the most of any
 * kernel. With a batch of ROWS samples the memory is nearly all parameters, gradients and moments:
 * 153 MiB of blocks. */
enum { ROWS = 4, CLASSES = 4, INPUT = 1024, WIDTH = 512, HIDDEN = 1024, LAYERS = 9 };

/* The Gaussian error linear unit in its tanh form, and its slope. */
EACH float gelu(float x)
{
    return 0.5f * x * (1.0f + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
}

EACH float gelu_slope(float x)
{
    float t = tanhf(0.7978845608f * (x + 0.044715f * x * x * x));
    float inner = 0.7978845608f * (1.0f + 3.0f * 0.044715f * x * x);
    return 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * inner;
}

/* What AdamW needs beside the four arrays; the corrections are 1 - beta^step. */
struct adamw_rates {
    float rate, beta1, beta2, epsilon, decay, correction1, correction2;
};

EACH void adamw_element(float *p, float g, float *m, float *v, const struct adamw_rates *with)
{
    *m = with->beta1 * *m + (1.0f - with->beta1) * g;
    *v = with->beta2 * *v + (1.0f - with->beta2) * g * g;
    float step = *m / with->correction1 / (sqrtf(*v / with->correction2) + with->epsilon);
    *p -= with->rate * (step + with->decay * *p);
}

#endif
