# SPDX-License-Identifier: MIT
"""
serving.py MODEL eager|graphs: answer four requests with vLLM, as it is but for what needs a network, a tokenizer or minutes of
compiling. The last line printed is JSON: how many tokens each answer has, and {name: address} of the model's parameters and
buffers on the GPU.
"""

import json
import os
import sys

os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")  # the engine runs in this process

from vllm import LLM, SamplingParams  # noqa: E402


def addresses(tensors):
    return {name: tensor.untyped_storage().data_ptr() for name, tensor in tensors if tensor.is_cuda}


def main():
    llm = LLM(model=sys.argv[1], load_format="dummy", skip_tokenizer_init=True, enforce_eager=sys.argv[2] == "eager",
              max_model_len=2048, gpu_memory_utilization=0.9)  # fmt: skip
    prompts = [{"prompt_token_ids": list(range(1, 200))}] * 4
    answers = llm.generate(prompts, SamplingParams(max_tokens=16, detokenize=False))
    model = llm.llm_engine.model_executor.driver_worker.worker.model_runner.model
    print(json.dumps({
        "tokens": [len(answer.outputs[0].token_ids) for answer in answers],
        "parameters": addresses(model.named_parameters()),
        "buffers": addresses(model.named_buffers()),
    }))  # fmt: skip


if __name__ == "__main__":
    main()
