#include "cli/foreign_flags.h"

#include <algorithm>
#include <span>

namespace kvik {
namespace {

struct ForeignWord {
  std::string_view word;
  std::string_view advice;
};

constexpr std::string_view kNeedsRepository = "expected ORG/REPO[:QUANT] after it";
constexpr std::string_view kNeedsUrl = "expected the URL of a .gguf file after it";
constexpr std::string_view kPull = "kvik pull NAME downloads a model";
constexpr std::string_view kListing = "kvik list shows the stored models";
constexpr std::string_view kKvType = "--kv-type sets the type of K and V";
constexpr std::string_view kMaxRunning =
    "--max-running of kvik serve bounds the sequences that are computed together";
constexpr std::string_view kBatches = "Kvik chooses the size of its batches: leave it out";
constexpr std::string_view kMemory = "weights are always kept in memory: leave it out";
constexpr std::string_view kSystem = "--system of kvik run is the system prompt";
constexpr std::string_view kOneDevice = "no model is split over several devices";
constexpr std::string_view kFlash = "there is one attention kernel for each device: leave it out";

constexpr std::string_view kAlways = "it is always on: leave it out";
constexpr std::string_view kInRequest =
    "each request to a server says it; kvik run has it as a flag";
constexpr std::string_view kType =
    "the file says it; kvik quantize MODEL OUT --type TYPE makes another";
constexpr std::string_view kAdapter = "--adapter PATH reads a LoRA adapter";

constexpr ForeignWord kFlags[] = {
    {"--lora", kAdapter},
    {"--enable-lora", kAdapter},
    {"--lora-modules", kAdapter},
    {"--dtype", kType},
    {"--quantization", kType},
    {"--enable-prefix-caching", kAlways},
    {"--enable-chunked-prefill", kAlways},
    {"--enable-auto-tool-choice", kAlways},
    {"--metrics", kAlways},
    {"--embeddings", kAlways},
    {"--slots", kAlways},
    {"-cb", kAlways},
    {"--cont-batching", kAlways},
    {"-n", kInRequest},
    {"--temp", kInRequest},
    {"--temperature", kInRequest},
    {"--seed", kInRequest},
    {"--json", "--json-schema FILE of kvik run asks for JSON"},
    {"-hf", kNeedsRepository},
    {"-hfr", kNeedsRepository},
    {"--hf-repo", kNeedsRepository},
    {"-hff", "it belongs to -hf ORG/REPO"},
    {"--hf-file", "it belongs to -hf ORG/REPO"},
    {"-mu", kNeedsUrl},
    {"--model-url", kNeedsUrl},
    {"-ctk", kKvType},
    {"-ctv", kKvType},
    {"--cache-type-k", kKvType},
    {"--cache-type-v", kKvType},
    {"--kv-cache-dtype", kKvType},
    {"-np", kMaxRunning},
    {"--parallel", kMaxRunning},
    {"--max-num-seqs", kMaxRunning},
    {"-b", kBatches},
    {"-ub", kBatches},
    {"--batch-size", kBatches},
    {"--ubatch-size", kBatches},
    {"-fa", kFlash},
    {"--flash-attn", kFlash},
    {"--no-mmap", kMemory},
    {"--mlock", kMemory},
    {"--jinja", "the model's chat template is always used: leave it out"},
    {"--served-model-name", "--alias of kvik serve names the model"},
    {"--max-model-len", "--ctx is the number of tokens of context"},
    {"--gpu-memory-utilization", "--kv-memory of kvik serve is the memory of the KV cache"},
    {"-sys", kSystem},
    {"--system-prompt", kSystem},
    {"-s", "--seed of kvik run is the seed"},
    {"-cnv", "kvik run MODEL begins a chat"},
    {"-tp", kOneDevice},
    {"--tensor-parallel-size", kOneDevice},
};

constexpr ForeignWord kCommands[] = {
    {"download", kPull},
    {"get", kPull},
    {"ls", kListing},
    {"models", kListing},
    {"chat", "kvik run MODEL begins a chat"},
};

std::string_view find(std::span<const ForeignWord> words, std::string_view word) {
  const auto found = std::ranges::find(words, word, &ForeignWord::word);
  return found == words.end() ? std::string_view() : found->advice;
}

}  // namespace

std::string_view advice_on_flag(std::string_view flag) { return find(kFlags, flag); }

std::string_view advice_on_command(std::string_view command) { return find(kCommands, command); }

}  // namespace kvik
