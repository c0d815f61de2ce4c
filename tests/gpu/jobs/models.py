"""Libraries on top of PyTorch: transformers, peft, accelerate, Lightning, torchvision. Models are
made from configurations, with random parameters: nothing is downloaded."""
import os
import tempfile

from jobs.training import Samples, adamw, parts

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


def llama(run, width=1024, layers=12, dtype=None):
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM
    width = run.size(width, 64)
    config = LlamaConfig(vocab_size=run.size(32000, 256), hidden_size=width,
                         intermediate_size=run.size(4 * width, 128),
                         num_hidden_layers=run.size(layers, 2),
                         num_attention_heads=run.size(width // 128, 2),
                         max_position_embeddings=2048, use_cache=False)
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype or before)
    try:
        with torch.device(run.device):
            return LlamaForCausalLM(config)
    finally:
        torch.set_default_dtype(before)


def text(run, vocabulary, count):
    """Samples as transformers wants them."""
    samples = Samples(count, vocabulary, run.size(512, 32))
    return [{"input_ids": samples[i], "labels": samples[i]} for i in range(count)]


def trainer(run):
    """Fine-tuning by transformers' Trainer."""
    from transformers import Trainer, TrainerCallback, TrainingArguments
    model = llama(run)

    class Steps(TrainerCallback):
        def on_step_begin(self, *_, **__):
            run.begin()

        def on_step_end(self, *_, **__):
            run.end(model.lm_head.weight.detach().sum())

    with tempfile.TemporaryDirectory() as folder:
        size = run.size(4, 2)
        arguments = TrainingArguments(
            output_dir=folder, max_steps=run.steps, per_device_train_batch_size=size, seed=0,
            bf16=run.card, use_cpu=not run.card, report_to=[], save_strategy="no",
            logging_strategy="no", disable_tqdm=True, optim="adamw_torch_fused",
            dataloader_num_workers=2)
        data = text(run, model.config.vocab_size, size * run.steps)
        coach = Trainer(model=model, args=arguments, train_dataset=data, callbacks=[Steps()])
        run.extra["cards"] = arguments.n_gpu
        coach.train()
        run.held.close()
    return {"parameters": list(model.parameters())}


def lora(run):
    """Low-rank adapters by peft over frozen parameters, which are only read."""
    import torch
    from peft import LoraConfig, get_peft_model
    base = llama(run, 2048, 20, torch.bfloat16)
    model = get_peft_model(base, LoraConfig(r=16, target_modules="all-linear"))
    adapters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(adapters, lr=1e-3, fused=True)
    tokens = torch.randint(0, base.config.vocab_size, (1, run.size(128, 32)),
                           device=run.device)

    def step():
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    run.repeat(step)
    return parts(model, optimizer)


def generation(run):
    """Greedy decoding with a cache of keys and values: each token reads all parameters."""
    import torch
    model = llama(run, 2048, 24, torch.bfloat16).eval()
    prompt = torch.randint(0, model.config.vocab_size, (4, 32), device=run.device)
    made = []

    def step():
        out = model.generate(prompt, max_new_tokens=run.size(12, 4), do_sample=False,
                             use_cache=True, pad_token_id=0)
        made.append(out)
        return out.sum()

    run.repeat(step)
    return {"tokens": made, "parameters": list(model.parameters())}


def accelerated(run):
    """The same training through accelerate, with gradients accumulated over two batches."""
    import torch
    from accelerate import Accelerator
    guide = Accelerator(gradient_accumulation_steps=2, cpu=not run.card,
                        mixed_precision="bf16" if run.card else "no")
    model = llama(run)
    data = text(run, model.config.vocab_size, run.size(4, 2) * run.steps)
    feed = torch.utils.data.DataLoader(data, run.size(4, 2))
    model, optimizer, feed = guide.prepare(model, adamw(run, model), feed)
    batches = iter(feed)

    def step():
        batch = next(batches)
        with guide.accumulate(model):
            loss = model(**batch).loss
            guide.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        return loss.detach()

    run.repeat(step)
    return {"parameters": list(model.parameters())}


def lightning(run):
    """The same under Lightning's loop, which also has a look every step."""
    import torch
    try:
        from lightning import pytorch as library
    except ImportError:
        import pytorch_lightning as library
    model = llama(run)

    class Task(library.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = model

        def training_step(self, batch, _):
            return self.model(**batch).loss

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=1e-4, fused=True)

        def on_train_batch_start(self, *_):
            run.begin()

        def on_train_batch_end(self, outputs, *_):
            run.end(outputs["loss"])

    data = text(run, model.config.vocab_size, run.size(4, 2) * run.steps)
    feed = torch.utils.data.DataLoader(data, run.size(4, 2))
    coach = library.Trainer(max_steps=run.steps, accelerator="gpu" if run.card else "cpu",
                            devices=1, precision="bf16-mixed" if run.card else "32-true",
                            logger=False, enable_checkpointing=False, enable_model_summary=False,
                            enable_progress_bar=False, num_sanity_val_steps=0)
    coach.fit(Task(), feed)
    run.held.close()
    model.to(run.device)
    return {"parameters": list(model.parameters())}


def resnet(run):
    import torch
    from torchvision.models import resnet18, resnet50
    with torch.device(run.device):
        model = (resnet18 if run.small else resnet50)()
        pictures = torch.randn(run.size(48, 2), 3, run.size(224, 32), run.size(224, 32))
        labels = torch.randint(0, 1000, (run.size(48, 2),))
    model = model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def step():
        loss = torch.nn.functional.cross_entropy(model(pictures), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    run.repeat(step)
    return {**parts(model, optimizer), "buffers": list(model.buffers())}


JOBS = {"trainer": trainer, "lora": lora, "generation": generation, "accelerate": accelerated,
        "lightning": lightning, "resnet50": resnet}
