# SPDX-License-Identifier: MIT
# estimate: terms as text and CSV, the budget of a vision-language model, and what it refuses.
exec 2>&1
estimate()
{
	echo "== $*"
	"$V" estimate "$@"
	echo "status $?"
}
estimate -n 13.3555B -p fp16 --activations 2.5x --accumulate --context 0
estimate -n 1543714304 -b 16 -l 256 --capacity 80GiB
estimate -n 7B -p mixed -o adamw8bit --checkpointing --layers 32 --hidden 4096 --zero 2 --gpus 8
echo '{"model_type": "llava", "text_config": {"model_type": "llama", "vocab_size": 32064}, "vision_config":
	{"model_type": "clip_vision_model", "hidden_size": 1024, "image_size": 336, "intermediate_size": 4096,
	"num_attention_heads": 16, "num_hidden_layers": 24, "patch_size": 14}}' >llava.json
estimate --config llava.json -p fp16 --image 336x336 -l 512 --eager --frozen 95%
estimate --config llava.json -p bf16 --inference -b 8 --csv
echo '{"model_type": "new", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100}' >new.json
estimate --config new.json -o none --tensor-parallel 2
estimate -n 100B --capacity 80GiB -o sgd
echo '== refused'
echo '{"model_type": "llama", "hidden_size": -1}' >negative.json
echo '{"model_type": "new"}' >empty.json
echo '{"hidden_size": 4096' >cut.json
echo '[1]' >list.json
echo '{"model_type": "llama", "hidden_size": 268435456, "intermediate_size": 268435456}' >huge.json
echo '{"model_type": "llama"} {"model_type": "llama"}' >two.json
echo '{"model_type": "llama"}garbage' >garbage.json
echo '{"model_type": "llama", "num_key_value_heads": 0}' >no_kv.json
echo '{"model_type": "llama", "num_key_value_heads": 64}' >more_kv.json
echo '{"model_type": "llama", "vocab_size": 0}' >no_vocab.json
echo '{"model_type": "bert", "num_attention_heads": 0}' >no_heads.json
echo '{"model_type": "llama", "hidden_size": "4096"}' >text.json
echo '{"model_type": "llama", "num_hidden_layers": NaN}' >nan.json
for file in negative empty cut list huge missing two garbage no_kv more_kv no_vocab no_heads text nan; do
	"$V" estimate --config $file.json
	echo "status $?"
done
for wrong in '' '-n' '-n seven' '-n 7B --config new.json' '-n 7B --frozen 2' '-n 7B --frozen vision' '-n 7B --activations x' '-n 7B --image big' \
	'-n 7B --cross-attention 3' '-n 7B --zero 4' '-n 7B --zero 3' '-n 7B --eager' '-n 7B --inference' \
	'-n 7B --batch 0' '-n 7B --measure' '-n 7B program' '-n 7B --against missing.vtr' \
	'-n 7B --gpus 8' '-n 7B --zero 0 --gpus 8 --csv' '-n 7B --simulate a100' '-n 7B --heads 8 --kv-heads 16' '-n 7B --patch 16' '-n 0x10' '-n 7B --image 3x3' \
	'-n 7B --batch 1099511627776 --length 4294967296'; do
	"$V" estimate $wrong
	echo "status $?"
done
echo "== a batch that costs nothing"
"$V" estimate -n 1B --activations 2.5x --capacity 80GiB | grep 'largest batch'
"$V" estimate -n 1B --activations 2.5x --capacity 80GiB --json | grep largest_batch
