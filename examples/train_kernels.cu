/* train: the kernels, for real cards. train_kernels.ptx is made from this file by
 *
 *     nvcc -ptx -arch=compute_75 -o train_kernels.ptx train_kernels.cu
 *     sed -i '/^.version/c .version 6.4' train_kernels.ptx    # or older drivers refuse it
 *
 * and built into the program as text, which the driver compiles for the card at hand. train_emu.c
 * has the same kernels for the emulator.
 *
 * Every sum runs in a fixed order within one thread: no atomics, so reruns agree to the last bit. A
 * batch has only ROWS samples, so one thread holds the sums of all of them and reads each weight
 * once. Matrices are stored [in][out], row by row; activations [ROWS][width]. */
#include "train_shape.h"

#define THREAD_INDEX (blockIdx.x * blockDim.x + threadIdx.x)

/* y = x w + bias; with `residual`, y = residual + x w + bias. One thread an output column. */
extern "C" __global__ void linear_forward(float *y, const float *x, const float *w,
                                          const float *bias, const float *residual, unsigned in,
                                          unsigned out)
{
    unsigned column = THREAD_INDEX;
    if (column >= out) return;
    float sum[ROWS];
    for (unsigned r = 0; r < ROWS; r++)
        sum[r] = bias[column] + (residual ? residual[r * out + column] : 0.0f);
    for (unsigned i = 0; i < in; i++) {
        float weight = w[i * out + column];
        for (unsigned r = 0; r < ROWS; r++) sum[r] += x[r * in + i] * weight;
    }
    for (unsigned r = 0; r < ROWS; r++) y[r * out + column] = sum[r];
}

/* dx = dy wT. One thread an input column. */
extern "C" __global__ void linear_backward_input(float *dx, const float *dy, const float *w,
                                                 unsigned in, unsigned out)
{
    unsigned i = THREAD_INDEX;
    if (i >= in) return;
    float sum[ROWS] = {0};
    for (unsigned column = 0; column < out; column++) {
        float weight = w[i * out + column];
        for (unsigned r = 0; r < ROWS; r++) sum[r] += dy[r * out + column] * weight;
    }
    for (unsigned r = 0; r < ROWS; r++) dx[r * in + i] = sum[r];
}

/* dw = xT dy, and dbias = the column sums of dy. One thread a weight. */
extern "C" __global__ void linear_backward_weight(float *dw, float *dbias, const float *x,
                                                  const float *dy, unsigned in, unsigned out)
{
    unsigned index = THREAD_INDEX;
    if (index >= in * out) return;
    unsigned i = index / out, column = index % out;
    float sum = 0, bias = 0;
    for (unsigned r = 0; r < ROWS; r++) {
        sum += x[r * in + i] * dy[r * out + column];
        bias += dy[r * out + column];
    }
    dw[index] = sum;
    if (i == 0) dbias[column] = bias;
}

/* Each row divided by its root mean square. One thread a row: there are few. */
extern "C" __global__ void norm_forward(float *y, const float *x, unsigned width)
{
    unsigned r = THREAD_INDEX;
    if (r >= ROWS) return;
    const float *row = x + r * width;
    float squares = 0;
    for (unsigned i = 0; i < width; i++) squares += row[i] * row[i];
    float scale = 1.0f / sqrtf(squares / (float)width + 1e-5f);
    for (unsigned i = 0; i < width; i++) y[r * width + i] = row[i] * scale;
}

/* dx += the gradient through the norm of x. */
extern "C" __global__ void norm_backward(float *dx, const float *dy, const float *x, unsigned width)
{
    unsigned r = THREAD_INDEX;
    if (r >= ROWS) return;
    const float *row = x + r * width, *drow = dy + r * width;
    float squares = 0, product = 0;
    for (unsigned i = 0; i < width; i++) {
        squares += row[i] * row[i];
        product += row[i] * drow[i];
    }
    float mean = squares / (float)width + 1e-5f, scale = 1.0f / sqrtf(mean);
    float along = product / (mean * (float)width);
    for (unsigned i = 0; i < width; i++) dx[r * width + i] += scale * (drow[i] - row[i] * along);
}

extern "C" __global__ void gelu_forward(float *y, const float *x, unsigned count)
{
    unsigned i = THREAD_INDEX;
    if (i < count) y[i] = gelu(x[i]);
}

/* dx becomes the gradient before the unit: it holds the one behind it. */
extern "C" __global__ void gelu_backward(float *dx, const float *x, unsigned count)
{
    unsigned i = THREAD_INDEX;
    if (i < count) dx[i] *= gelu_slope(x[i]);
}

/* Cross entropy, averaged over the batch, and its gradient. One thread does it all. */
extern "C" __global__ void softmax_loss(float *loss, float *dlogits, const float *logits,
                                        const int *labels)
{
    if (THREAD_INDEX != 0) return;
    float total = 0;
    for (unsigned r = 0; r < ROWS; r++) {
        const float *row = logits + r * CLASSES;
        float largest = row[0], sum = 0;
        for (unsigned c = 1; c < CLASSES; c++) largest = fmaxf(largest, row[c]);
        for (unsigned c = 0; c < CLASSES; c++) sum += expf(row[c] - largest);
        for (unsigned c = 0; c < CLASSES; c++) {
            float share = expf(row[c] - largest) / sum;
            dlogits[r * CLASSES + c] = (share - (labels[r] == (int)c ? 1.0f : 0.0f)) / ROWS;
        }
        total += logf(sum) + largest - row[labels[r]];
    }
    *loss = total / ROWS;
}

extern "C" __global__ void adamw(float *p, const float *g, float *m, float *v, unsigned count,
                                 struct adamw_rates rates)
{
    unsigned i = THREAD_INDEX;
    if (i < count) adamw_element(&p[i], g[i], &m[i], &v[i], &rates);
}
