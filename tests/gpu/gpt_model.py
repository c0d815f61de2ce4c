"""The model that the GPU scripts train: a plain GPT, as people write it."""
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

VOCABULARY = 50304
HEAD_WIDTH = 128


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def attention(self, x):
        batch, tokens, width = x.shape
        parts = self.qkv(x).view(batch, tokens, 3, width // HEAD_WIDTH, HEAD_WIDTH)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, tokens, width))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self, width, layers, tokens, recompute=False, vocabulary=VOCABULARY):
        super().__init__()
        self.recompute = recompute  # activations, in the backward pass, instead of keeping them
        self.token = nn.Embedding(vocabulary, width)
        self.position = nn.Embedding(tokens, width)
        self.layers = nn.ModuleList(Layer(width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens, targets):
        x = self.token(tokens) + self.position(torch.arange(tokens.shape[1], device=tokens.device))
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if self.recompute else layer(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.view(-1))
