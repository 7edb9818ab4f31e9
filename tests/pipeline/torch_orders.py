"""Prints the orders of torch.distributed.pipelining, for torch_orders_test.cpp.

For each shape a line `KIND RANKS MICROBATCHES STAGES_PER_RANK`, then a line for each rank, as CSV
without idle cells; `refused` alone where torch refuses the shape. Ends with 77 without torch.
"""
import sys
from types import SimpleNamespace

try:
    import torch
    from torch.distributed.pipelining import schedules
    KINDS = {
        "gpipe": (schedules.ScheduleGPipe, [1]),
        "interleaved_1f1b": (schedules.ScheduleInterleaved1F1B, [2, 3]),
        "looped_bfs": (schedules.ScheduleLoopedBFS, [1, 2, 3]),
        "zero_bubble": (schedules.ScheduleInterleavedZeroBubble, [1, 2, 3]),
        "zbv": (schedules.ScheduleZBVZeroBubble, [2]),
        "dualpipe_v": (schedules.ScheduleDualPipeV, [2]),
    }
except (ImportError, AttributeError) as error:
    print(f"no torch with these schedules: {error}")
    sys.exit(77)


def order(kind, ranks, microbatches, depth):
    """Torch's rows; none: it refuses the shape."""
    make = KINDS[kind][0]
    stages = [
        SimpleNamespace(num_stages=ranks * depth, group_size=ranks, group_rank=0, stage_index=index,
                        is_first=index == 0, is_last=index == ranks * depth - 1,
                        has_backward=False, submod=None)
        for index in range(0, ranks * depth, ranks)
    ]
    if kind == "gpipe":
        return make(stages[0], microbatches)._get_pipeline_order()
    try:
        return make(stages, microbatches).pipeline_order
    except ValueError:
        return None


for kind, (_, depths) in KINDS.items():
    for ranks in range(1, 6):
        for depth in depths:
            for microbatches in range(1, 14):
                print(kind, ranks, microbatches, depth)
                rows = order(kind, ranks, microbatches, depth)
                if rows is None:
                    print("refused")
                    continue
                for rank in range(ranks):
                    print(",".join(str(action) for action in rows[rank]
                                   if action is not None and "REDUCE_GRAD" not in str(action)))
print("torch", torch.__version__)
