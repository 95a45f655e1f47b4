"""torchvision's ResNet-18: convolutions, and batch norms whose buffers every microbatch updates;
in float32, and with its layers computed in bfloat16."""

import torch
import torch.nn.functional as F
import torchvision

import cleave


class Autocast(torch.nn.Module):
    """`network` computed in bfloat16, its parameters and the batch norms' statistics in float32."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, images):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = self.network(images)
        return logits.float()


def _spec(name, wrap=lambda network: network):
    torch.manual_seed(0)
    module = wrap(torchvision.models.resnet18(num_classes=10)).train()
    # Batch norm over the two values that smaller images leave a channel would be chaotic.
    images = torch.randn(4, 3, 64, 64)
    labels = torch.randint(10, (4,))
    return cleave.ExportSpec(
        module,
        (images,),
        loss=F.cross_entropy,
        targets=(labels,),
        optimizer=torch.optim.SGD(
            module.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4, nesterov=True
        ),
        name=name,
    )


def resnet18():
    return _spec("resnet18")


def autocast():
    return _spec("resnet18_autocast", Autocast)
