"""torchvision's ResNet-18: convolutions, and batch norms whose buffers every microbatch updates."""

import torch
import torch.nn.functional as F
import torchvision

import cleave


def resnet18():
    torch.manual_seed(0)
    module = torchvision.models.resnet18(num_classes=10).train()
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
        name="resnet18",
    )
