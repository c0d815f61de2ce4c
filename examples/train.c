/* train: a small network trained with AdamW on one card through the CUDA driver API, and nothing
 * else.
 *
 * It is an ordinary program that knows nothing of vrampool: it allocates 153 MiB on one card,
 * every step touches all of it, and it ends with `out of memory` where that is more than the card
 * has.
 *
 * The task: tell CLASSES random patterns apart under noise. The network is a residual multi-layer
 * perceptron as in a transformer's feed-forward half: h = embed(x), then LAYERS times h +=
 * down(gelu(up(norm(h)))), then logits = head(norm(h)). Everything is deterministic: the same seed
 * prints the same losses to the last bit.
 *
 * With --cards N it trains N such networks side by side, each by a thread and a card of its own.
 *
 * stdout has one line a step, `step N loss L`, L in hexadecimal so that no digit is lost; with
 * --cards the lines of one card come after those of the other, each led by `card C`. The rest goes
 * to stderr. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gpu.h"
#include "train_shape.h"

extern const char train_ptx[];

#define NOISE 4.0f /* beside patterns of ±1: hard enough that learning takes some steps */

/* X(kernel); see train_kernels.cu. */
#define KERNELS(X)                                                                                 \
    X(linear_forward)                                                                              \
    X(linear_backward_input)                                                                       \
    X(linear_backward_weight)                                                                      \
    X(norm_forward) X(norm_backward) X(gelu_forward) X(gelu_backward) X(softmax_loss) X(adamw)

/* A trained array with all that AdamW keeps beside it. */
struct parameter {
    gpu_address value, gradient, first_moment, second_moment;
    unsigned count;
};

struct linear {
    struct parameter weight, bias;
    unsigned in, out;
};

/* One residual layer, and the activations that its backward pass needs. */
struct layer {
    struct linear up, down;
    gpu_address normed, before, after, output;
};

struct network {
    struct linear embed, head;
    struct layer layers[LAYERS];
    gpu_address input, labels, embedded, normed, logits, loss;
    gpu_address d_logits, d_state, d_normed,
        d_hidden; /* gradients of activations, reused by all layers */
};

struct trainer {
    struct gpu gpu;
#define KERNEL_FIELD(name) gpu_function name;
    KERNELS(KERNEL_FIELD)
#undef KERNEL_FIELD
    struct network net;
    float patterns[CLASSES][INPUT];
    uint64_t random;
};

enum { MOST_CARDS = 16 };

/* With --cards: one of the jobs that run side by side. */
struct job {
    int card;
    unsigned steps;
    uint64_t seed;
    float *losses;
    double seconds;
    pthread_t thread;
};

struct options {
    unsigned steps, cards; /* 0: one job, on the card that is ours */
    uint64_t seed;
    size_t leave_bytes; /* 0: leave the card as it is */
};

/* Uniform in [-1, 1): the splitmix64 generator. */
static float random_float(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    z ^= z >> 31;
    return (float)(z >> 40) / (float)(1 << 23) - 1.0f;
}

static gpu_address floats(struct trainer *trainer, size_t count)
{
    return gpu_alloc(&trainer->gpu, count * sizeof(float));
}

static void zero(struct trainer *trainer, gpu_address at, size_t count)
{
    gpu_check(&trainer->gpu, trainer->gpu.cuMemsetD8_v2(at, 0, count * sizeof(float)),
              "cuMemsetD8");
}

static void upload(struct trainer *trainer, gpu_address to, const void *from, size_t bytes)
{
    gpu_check(&trainer->gpu, trainer->gpu.cuMemcpyHtoD_v2(to, from, bytes), "cuMemcpyHtoD");
}

/* Allocates a parameter and fills it with uniform noise of the given standard deviation. */
static struct parameter make_parameter(struct trainer *trainer, unsigned count, float deviation)
{
    struct parameter made = {.count = count};
    gpu_address *blocks[] = {&made.value, &made.gradient, &made.first_moment, &made.second_moment};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        *blocks[i] = floats(trainer, count);
        zero(trainer, *blocks[i], count);
    }
    if (deviation == 0) return made;
    float *values = malloc(count * sizeof *values);
    if (!values) {
        fprintf(stderr, "train: the host has no memory for %u floats\n", count);
        exit(1);
    }
    float bound = deviation * sqrtf(3.0f);
    for (unsigned i = 0; i < count; i++) values[i] = bound * random_float(&trainer->random);
    upload(trainer, made.value, values, count * sizeof *values);
    free(values);
    return made;
}

static struct linear make_linear(struct trainer *trainer, unsigned in, unsigned out, float scale)
{
    return (struct linear){
        .weight = make_parameter(trainer, in * out, scale / sqrtf((float)in)),
        .bias = make_parameter(trainer, out, 0),
        .in = in,
        .out = out,
    };
}

static void make_network(struct trainer *trainer)
{
    struct network *net = &trainer->net;
    net->input = floats(trainer, ROWS * INPUT);
    net->labels = gpu_alloc(&trainer->gpu, ROWS * sizeof(int));
    net->loss = floats(trainer, 1);
    net->embed = make_linear(trainer, INPUT, WIDTH, 1);
    net->embedded = floats(trainer, ROWS * WIDTH);
    for (struct layer *layer = net->layers; layer < net->layers + LAYERS; layer++) {
        layer->up = make_linear(trainer, WIDTH, HIDDEN, 1);
        layer->down = make_linear(trainer, HIDDEN, WIDTH, 1 / sqrtf(2.0f * LAYERS));
        layer->normed = floats(trainer, ROWS * WIDTH);
        layer->before = floats(trainer, ROWS * HIDDEN);
        layer->after = floats(trainer, ROWS * HIDDEN);
        layer->output = floats(trainer, ROWS * WIDTH);
    }
    net->head = make_linear(trainer, WIDTH, CLASSES, 0.5f);
    net->normed = floats(trainer, ROWS * WIDTH);
    net->logits = floats(trainer, ROWS * CLASSES);
    net->d_logits = floats(trainer, ROWS * CLASSES);
    net->d_state = floats(trainer, ROWS * WIDTH);
    net->d_normed = floats(trainer, ROWS * WIDTH);
    net->d_hidden = floats(trainer, ROWS * HIDDEN);
}

/* y = linear(x), plus `residual` unless that is 0. */
static void forward(struct trainer *trainer, struct linear *linear, gpu_address y, gpu_address x,
                    gpu_address residual)
{
    void *params[] = {&y,        &x,          &linear->weight.value, &linear->bias.value,
                      &residual, &linear->in, &linear->out};
    gpu_launch(&trainer->gpu, trainer->linear_forward, linear->out, params);
}

/* The gradients of a linear layer, and of its input x unless dx is 0. */
static void backward(struct trainer *trainer, struct linear *linear, gpu_address dx, gpu_address dy,
                     gpu_address x)
{
    void *weight_params[] = {
        &linear->weight.gradient, &linear->bias.gradient, &x, &dy, &linear->in, &linear->out};
    gpu_launch(&trainer->gpu, trainer->linear_backward_weight, linear->in * linear->out,
               weight_params);
    if (!dx) return;
    void *input_params[] = {&dx, &dy, &linear->weight.value, &linear->in, &linear->out};
    gpu_launch(&trainer->gpu, trainer->linear_backward_input, linear->in, input_params);
}

static void norm(struct trainer *trainer, gpu_address y, gpu_address x)
{
    unsigned width = WIDTH;
    void *params[] = {&y, &x, &width};
    gpu_launch(&trainer->gpu, trainer->norm_forward, ROWS, params);
}

static void norm_backward(struct trainer *trainer, gpu_address dx, gpu_address dy, gpu_address x)
{
    unsigned width = WIDTH;
    void *params[] = {&dx, &dy, &x, &width};
    gpu_launch(&trainer->gpu, trainer->norm_backward, ROWS, params);
}

static void gelu_pass(struct trainer *trainer, gpu_function kernel, gpu_address to,
                      gpu_address from)
{
    unsigned count = ROWS * HIDDEN;
    void *params[] = {&to, &from, &count};
    gpu_launch(&trainer->gpu, kernel, count, params);
}

static void update(struct trainer *trainer, struct parameter *p, struct adamw_rates *rates)
{
    void *params[] = {&p->value,         &p->gradient, &p->first_moment,
                      &p->second_moment, &p->count,    rates};
    gpu_launch(&trainer->gpu, trainer->adamw, p->count, params);
}

static void update_linear(struct trainer *trainer, struct linear *linear, struct adamw_rates *rates)
{
    update(trainer, &linear->weight, rates);
    update(trainer, &linear->bias, rates);
}

/* Draws a batch, one sample of each class, and sends it to the card. */
static void next_batch(struct trainer *trainer)
{
    _Static_assert(ROWS == CLASSES, "a batch has one sample of each class");
    float samples[ROWS][INPUT];
    int labels[ROWS];
    for (int r = 0; r < ROWS; r++) {
        labels[r] = r;
        for (int i = 0; i < INPUT; i++)
            samples[r][i] = trainer->patterns[r][i] + NOISE * random_float(&trainer->random);
    }
    upload(trainer, trainer->net.input, samples, sizeof samples);
    upload(trainer, trainer->net.labels, labels, sizeof labels);
}

static void run_forward(struct trainer *trainer)
{
    struct network *net = &trainer->net;
    forward(trainer, &net->embed, net->embedded, net->input, 0);
    gpu_address state = net->embedded;
    for (struct layer *layer = net->layers; layer < net->layers + LAYERS; layer++) {
        norm(trainer, layer->normed, state);
        forward(trainer, &layer->up, layer->before, layer->normed, 0);
        gelu_pass(trainer, trainer->gelu_forward, layer->after, layer->before);
        forward(trainer, &layer->down, layer->output, layer->after, state);
        state = layer->output;
    }
    norm(trainer, net->normed, state);
    forward(trainer, &net->head, net->logits, net->normed, 0);
    void *params[] = {&net->loss, &net->d_logits, &net->logits, &net->labels};
    gpu_launch(&trainer->gpu, trainer->softmax_loss, 1, params);
}

static void run_backward(struct trainer *trainer)
{
    struct network *net = &trainer->net;
    backward(trainer, &net->head, net->d_normed, net->d_logits, net->normed);
    zero(trainer, net->d_state, ROWS * WIDTH);
    norm_backward(trainer, net->d_state, net->d_normed, net->layers[LAYERS - 1].output);
    for (int i = LAYERS - 1; i >= 0; i--) {
        struct layer *layer = &net->layers[i];
        backward(trainer, &layer->down, net->d_hidden, net->d_state, layer->after);
        gelu_pass(trainer, trainer->gelu_backward, net->d_hidden, layer->before);
        backward(trainer, &layer->up, net->d_normed, net->d_hidden, layer->normed);
        gpu_address state = i > 0 ? net->layers[i - 1].output : net->embedded;
        norm_backward(trainer, net->d_state, net->d_normed, state);
    }
    backward(trainer, &net->embed, 0, net->d_state, net->input);
}

static void run_optimizer(struct trainer *trainer, unsigned step)
{
    struct network *net = &trainer->net;
    struct adamw_rates rates = {
        .rate = 2e-4f, .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f, .decay = 0.01f};
    rates.correction1 = 1 - powf(rates.beta1, (float)step);
    rates.correction2 = 1 - powf(rates.beta2, (float)step);
    update_linear(trainer, &net->embed, &rates);
    for (struct layer *layer = net->layers; layer < net->layers + LAYERS; layer++) {
        update_linear(trainer, &layer->up, &rates);
        update_linear(trainer, &layer->down, &rates);
    }
    update_linear(trainer, &net->head, &rates);
}

static float train_step(struct trainer *trainer, unsigned step)
{
    next_batch(trainer);
    run_forward(trainer);
    run_backward(trainer);
    run_optimizer(trainer, step);
    float loss = 0;
    struct gpu *gpu = &trainer->gpu;
    gpu_check(gpu, gpu->cuMemcpyDtoH_v2(&loss, trainer->net.loss, sizeof loss), "cuMemcpyDtoH");
    return loss;
}

/* The card is open. */
static void prepare(struct trainer *trainer, uint64_t seed)
{
    gpu_load_kernels(&trainer->gpu, train_ptx);
#define KERNEL_LOAD(name) trainer->name = gpu_kernel(&trainer->gpu, #name);
    KERNELS(KERNEL_LOAD)
#undef KERNEL_LOAD
    trainer->random = seed;
    for (int c = 0; c < CLASSES; c++)
        for (int i = 0; i < INPUT; i++)
            trainer->patterns[c][i] = random_float(&trainer->random) < 0 ? -1.0f : 1.0f;
    make_network(trainer);
    fprintf(stderr, "train: %.1f MiB in blocks, all touched by every step\n",
            (double)trainer->gpu.allocated_bytes / (1 << 20));
}

static int train_alone(const struct options *options)
{
    static struct trainer trainer;
    gpu_open(&trainer.gpu, "train", NULL);
    if (options->leave_bytes) gpu_take_rest(&trainer.gpu, options->leave_bytes);
    prepare(&trainer, options->seed);
    for (unsigned step = 1; step <= options->steps; step++) {
        printf("step %u loss %a\n", step, (double)train_step(&trainer, step));
        fflush(stdout);
    }
    return 0;
}

/* ---- Several cards, side by side ---- */

static double now_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void *run_job(void *argument)
{
    struct job *job = argument;
    double began = now_seconds();
    struct trainer *trainer = calloc(1, sizeof *trainer);
    if (!trainer) exit(1);
    gpu_open_card(&trainer->gpu, "train", NULL, job->card);
    prepare(trainer, job->seed);
    for (unsigned step = 1; step <= job->steps; step++)
        job->losses[step - 1] = train_step(trainer, step);
    job->seconds = now_seconds() - began;
    free(trainer);
    return NULL;
}

static int train_together(const struct options *options)
{
    struct job jobs[MOST_CARDS];
    for (unsigned i = 0; i < options->cards; i++) {
        jobs[i] = (struct job){.card = (int)i, .steps = options->steps, .seed = options->seed + i};
        jobs[i].losses = calloc(options->steps + 1, sizeof *jobs[i].losses);
        if (!jobs[i].losses || pthread_create(&jobs[i].thread, NULL, run_job, &jobs[i]) != 0) {
            fprintf(stderr, "train: the host has no memory for another thread\n");
            return 1;
        }
    }
    for (unsigned i = 0; i < options->cards; i++) {
        pthread_join(jobs[i].thread, NULL);
        for (unsigned step = 0; step < options->steps; step++)
            printf("card %u step %u loss %a\n", i, step + 1, (double)jobs[i].losses[step]);
        fprintf(stderr, "train: card %u took %.3f s\n", i, jobs[i].seconds);
        free(jobs[i].losses);
    }
    return 0;
}

static void usage(FILE *to)
{
    fprintf(to, "train [--steps N] [--seed N] [--leave BYTES | --cards N]\n"
                "Trains a small network that needs 153 MiB on the first card.\n"
                "  --steps N      how many steps, 10 if not given\n"
                "  --seed N       another seed gives another network and other samples\n"
                "  --leave BYTES  first takes all of the card's memory but this much, such as 24M\n"
                "  --cards N      trains one such network on each of N cards at once\n");
}

static int parse_options(int count, char **words, struct options *options)
{
    *options = (struct options){.steps = 10, .seed = 1};
    for (int i = 1; i < count; i++) {
        if (strcmp(words[i], "--help") == 0) {
            usage(stdout);
            exit(0);
        }
        if (i + 1 == count) return 0;
        const char *name = words[i++];
        size_t value = 0;
        if (!gpu_parse_bytes(words[i], &value)) return 0;
        if (strcmp(name, "--steps") == 0 && value <= 1000000)
            options->steps = (unsigned)value;
        else if (strcmp(name, "--seed") == 0)
            options->seed = value;
        else if (strcmp(name, "--leave") == 0 && value > 0)
            options->leave_bytes = value;
        else if (strcmp(name, "--cards") == 0 && value > 0 && value <= MOST_CARDS)
            options->cards = (unsigned)value;
        else
            return 0;
    }
    return 1;
}

int main(int count, char **words)
{
    struct options options;
    if (!parse_options(count, words, &options)) {
        usage(stderr);
        return 2;
    }
    if (options.leave_bytes && options.cards) {
        usage(stderr);
        return 2;
    }
    return options.cards ? train_together(&options) : train_alone(&options);
}
