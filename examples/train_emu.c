/* train: the kernels of train_kernels.cu once more, as host functions for the emulated driver,
 * which finds them by name and calls each for a part of its grid at a time. Threads run in linear
 * order here, and sums in the order of the originals. Real cards never come here. */
#include <stdio.h>
#include <stdlib.h>

#include "emu/emu_kernel.h"
#include "train_shape.h"

/* The threads to run now, of `count` that do something. */
static uint32_t threads_to_run(struct emu_block *b, uint32_t count, uint32_t *first)
{
    uint64_t begin, end;
    emu_threads(b, &begin, &end);
    if (begin > count) begin = count;
    if (end > count) end = count;
    *first = (uint32_t)begin;
    return (uint32_t)(end - begin);
}

/* An array on the card, for reading: where it lies in one piece, that; else a copy, to be freed. */
struct array {
    const float *at;
    float *copy;
};

static struct array array_open(struct emu_block *b, uint64_t address, size_t count)
{
    size_t bytes = count * sizeof(float), part;
    const float *at = emu_access(b, address, bytes, EMU_READ, &part);
    if (part == bytes) return (struct array){.at = at};
    float *copy = malloc(bytes);
    if (!copy) {
        fprintf(stderr, "train: the host has no memory for a copy of %zu bytes\n", bytes);
        exit(1);
    }
    emu_read(b, address, copy, bytes);
    return (struct array){.at = copy, .copy = copy};
}

static void array_close(struct array *array)
{
    free(array->copy);
}

static uint64_t element(uint64_t array, uint32_t index)
{
    return array + (uint64_t)index * sizeof(float);
}

void emu_kernel_linear_forward(struct emu_block *b);
void emu_kernel_linear_forward(struct emu_block *b)
{
    uint64_t y = emu_param_u64(b, 0), residual = emu_param_u64(b, 4);
    uint32_t in = emu_param_u32(b, 5), out = emu_param_u32(b, 6), first;
    uint32_t columns = threads_to_run(b, out, &first);
    if (columns == 0) return;
    struct array x = array_open(b, emu_param_u64(b, 1), (size_t)ROWS * in);
    struct array w = array_open(b, emu_param_u64(b, 2), (size_t)in * out);
    float sum[ROWS][HIDDEN], bias[HIDDEN];
    emu_read(b, element(emu_param_u64(b, 3), first), bias, columns * sizeof(float));
    for (uint32_t r = 0; r < ROWS; r++) {
        float start[HIDDEN] = {0};
        if (residual)
            emu_read(b, element(residual, r * out + first), start, columns * sizeof(float));
        for (uint32_t c = 0; c < columns; c++) sum[r][c] = bias[c] + start[c];
    }
    for (uint32_t i = 0; i < in; i++) {
        const float *row = w.at + (size_t)i * out + first;
        for (uint32_t r = 0; r < ROWS; r++) {
            float factor = x.at[r * in + i];
            for (uint32_t c = 0; c < columns; c++) sum[r][c] += factor * row[c];
        }
    }
    for (uint32_t r = 0; r < ROWS; r++)
        emu_write(b, element(y, r * out + first), sum[r], columns * sizeof(float));
    array_close(&w);
    array_close(&x);
}

void emu_kernel_linear_backward_input(struct emu_block *b);
void emu_kernel_linear_backward_input(struct emu_block *b)
{
    uint64_t dx = emu_param_u64(b, 0), w = emu_param_u64(b, 2);
    uint32_t in = emu_param_u32(b, 3), out = emu_param_u32(b, 4), first;
    uint32_t inputs = threads_to_run(b, in, &first);
    if (inputs == 0) return;
    struct array dy = array_open(b, emu_param_u64(b, 1), (size_t)ROWS * out);
    struct array rows = array_open(b, element(w, first * out), (size_t)inputs * out);
    float across[HIDDEN][ROWS]; /* dy with the rows innermost: they add up side by side */
    for (uint32_t r = 0; r < ROWS; r++)
        for (uint32_t c = 0; c < out; c++) across[c][r] = dy.at[r * out + c];
    float result[ROWS][HIDDEN];
    for (uint32_t i = 0; i < inputs; i++) {
        const float *row = rows.at + (size_t)i * out;
        float sum[ROWS] = {0};
        for (uint32_t c = 0; c < out; c++)
            for (uint32_t r = 0; r < ROWS; r++) sum[r] += across[c][r] * row[c];
        for (uint32_t r = 0; r < ROWS; r++) result[r][i] = sum[r];
    }
    for (uint32_t r = 0; r < ROWS; r++)
        emu_write(b, element(dx, r * in + first), result[r], inputs * sizeof(float));
    array_close(&rows);
    array_close(&dy);
}

void emu_kernel_linear_backward_weight(struct emu_block *b);
void emu_kernel_linear_backward_weight(struct emu_block *b)
{
    uint64_t dw = emu_param_u64(b, 0), dbias = emu_param_u64(b, 1);
    uint32_t in = emu_param_u32(b, 4), out = emu_param_u32(b, 5), index;
    uint32_t left = threads_to_run(b, in * out, &index);
    struct array x = array_open(b, emu_param_u64(b, 2), (size_t)ROWS * in);
    struct array dy = array_open(b, emu_param_u64(b, 3), (size_t)ROWS * out);
    while (left > 0) { /* a row of dw, or what of it lies in one piece */
        uint32_t i = index / out, column = index % out, count = out - column;
        if (count > left) count = left;
        size_t part;
        float *to = emu_access(b, element(dw, index), count * sizeof(float), EMU_WRITE, &part);
        count = (uint32_t)(part / sizeof(float));
        float bias[HIDDEN] = {0}, sum[HIDDEN] = {0};
        for (uint32_t r = 0; r < ROWS; r++) {
            const float *drow = dy.at + r * out + column;
            float factor = x.at[r * in + i];
            for (uint32_t c = 0; c < count; c++) sum[c] += factor * drow[c];
            for (uint32_t c = 0; i == 0 && c < count; c++) bias[c] += drow[c];
        }
        memcpy(to, sum, count * sizeof(float));
        if (i == 0) emu_write(b, element(dbias, column), bias, count * sizeof(float));
        index += count;
        left -= count;
    }
    array_close(&dy);
    array_close(&x);
}

void emu_kernel_norm_forward(struct emu_block *b);
void emu_kernel_norm_forward(struct emu_block *b)
{
    uint64_t y = emu_param_u64(b, 0), x = emu_param_u64(b, 1);
    uint32_t width = emu_param_u32(b, 2), first, rows = threads_to_run(b, ROWS, &first);
    for (uint32_t r = first; r < first + rows; r++) {
        float row[WIDTH], squares = 0;
        emu_read(b, element(x, r * width), row, width * sizeof(float));
        for (uint32_t i = 0; i < width; i++) squares += row[i] * row[i];
        float scale = 1.0f / sqrtf(squares / (float)width + 1e-5f);
        for (uint32_t i = 0; i < width; i++) row[i] *= scale;
        emu_write(b, element(y, r * width), row, width * sizeof(float));
    }
}

void emu_kernel_norm_backward(struct emu_block *b);
void emu_kernel_norm_backward(struct emu_block *b)
{
    uint64_t dx = emu_param_u64(b, 0), dy = emu_param_u64(b, 1), x = emu_param_u64(b, 2);
    uint32_t width = emu_param_u32(b, 3), first, rows = threads_to_run(b, ROWS, &first);
    for (uint32_t r = first; r < first + rows; r++) {
        float row[WIDTH], drow[WIDTH], to[WIDTH], squares = 0, product = 0;
        emu_read(b, element(x, r * width), row, width * sizeof(float));
        emu_read(b, element(dy, r * width), drow, width * sizeof(float));
        emu_read(b, element(dx, r * width), to, width * sizeof(float));
        for (uint32_t i = 0; i < width; i++) {
            squares += row[i] * row[i];
            product += row[i] * drow[i];
        }
        float mean = squares / (float)width + 1e-5f, scale = 1.0f / sqrtf(mean);
        float along = product / (mean * (float)width);
        for (uint32_t i = 0; i < width; i++) to[i] += scale * (drow[i] - row[i] * along);
        emu_write(b, element(dx, r * width), to, width * sizeof(float));
    }
}

/* Both passes of the unit: to[i] = gelu(from[i]), or to[i] *= gelu_slope(from[i]). */
static void run_gelu(struct emu_block *b, int backward)
{
    uint64_t to = emu_param_u64(b, 0), from = emu_param_u64(b, 1);
    uint32_t index, left = threads_to_run(b, emu_param_u32(b, 2), &index);
    int mode = backward ? EMU_READ_WRITE : EMU_WRITE;
    for (uint32_t count; left > 0; index += count, left -= count) {
        size_t part_from, part_to;
        const float *x =
            emu_access(b, element(from, index), left * sizeof(float), EMU_READ, &part_from);
        float *y = emu_access(b, element(to, index), part_from, mode, &part_to);
        count = (uint32_t)(part_to / sizeof(float));
        for (uint32_t i = 0; i < count; i++) y[i] = backward ? y[i] * gelu_slope(x[i]) : gelu(x[i]);
    }
}

void emu_kernel_gelu_forward(struct emu_block *b);
void emu_kernel_gelu_forward(struct emu_block *b)
{
    run_gelu(b, 0);
}

void emu_kernel_gelu_backward(struct emu_block *b);
void emu_kernel_gelu_backward(struct emu_block *b)
{
    run_gelu(b, 1);
}

void emu_kernel_softmax_loss(struct emu_block *b);
void emu_kernel_softmax_loss(struct emu_block *b)
{
    uint32_t first;
    if (threads_to_run(b, 1, &first) == 0) return;
    float logits[ROWS][CLASSES], d_logits[ROWS][CLASSES], total = 0;
    int labels[ROWS];
    emu_read(b, emu_param_u64(b, 2), logits, sizeof logits);
    emu_read(b, emu_param_u64(b, 3), labels, sizeof labels);
    for (int r = 0; r < ROWS; r++) {
        const float *row = logits[r];
        float largest = row[0], sum = 0;
        for (int c = 1; c < CLASSES; c++) largest = fmaxf(largest, row[c]);
        for (int c = 0; c < CLASSES; c++) sum += expf(row[c] - largest);
        for (int c = 0; c < CLASSES; c++) {
            float share = expf(row[c] - largest) / sum;
            d_logits[r][c] = (share - (labels[r] == c ? 1.0f : 0.0f)) / ROWS;
        }
        int label = labels[r] & (CLASSES - 1); /* within bounds, whatever a fault left there */
        total += logf(sum) + largest - row[label];
    }
    emu_write(b, emu_param_u64(b, 1), d_logits, sizeof d_logits);
    emu_store_f32(b, emu_param_u64(b, 0), total / ROWS);
}

void emu_kernel_adamw(struct emu_block *b);
void emu_kernel_adamw(struct emu_block *b)
{
    enum { VALUE, GRADIENT, FIRST, SECOND, ARRAYS };
    uint64_t arrays[ARRAYS];
    for (unsigned k = 0; k < ARRAYS; k++) arrays[k] = emu_param_u64(b, k);
    uint32_t index, left = threads_to_run(b, emu_param_u32(b, ARRAYS), &index);
    struct adamw_rates rates;
    emu_param(b, ARRAYS + 1, &rates, sizeof rates);
    for (uint32_t count; left > 0; index += count, left -= count) {
        float *at[ARRAYS];
        size_t bytes = left * sizeof(float);
        for (unsigned k = 0; k < ARRAYS; k++) {
            int mode = k == GRADIENT ? EMU_READ : EMU_READ_WRITE;
            at[k] = emu_access(b, element(arrays[k], index), bytes, mode, &bytes);
        }
        count = (uint32_t)(bytes / sizeof(float));
        for (uint32_t i = 0; i < count; i++)
            adamw_element(&at[VALUE][i], at[GRADIENT][i], &at[FIRST][i], &at[SECOND][i], &rates);
    }
}
