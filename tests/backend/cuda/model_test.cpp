#include <fmt/format.h>
#include <gmock/gmock.h>

#include "backend/cuda/both_backends.h"
#include "base/clock.h"
#include "catalogue/family.h"
#include "format/synthetic/synthetic.h"
#include "host/load_model.h"

namespace kvik {
namespace {

using host_run::HostDevice;

// The output of an engine for a request.
struct Answer {
  std::vector<TokenId> ids;
  std::vector<float> logits;  // logits of all positions of prompts and of generated tokens
};

class AnswerSink final : public EventSink {
 public:
  explicit AnswerSink(Answer& answer) : answer_(answer) {}
  Verdict on_token(const TokenEvent& event) override {
    answer_.ids.push_back(event.id);
    return Verdict::kContinue;
  }
  void on_finish(FinishReason, const Usage&) override {}
  void on_logits(uint32_t, std::span<const float> logits) override {
    answer_.logits.insert(answer_.logits.end(), logits.begin(), logits.end());
  }

 private:
  Answer& answer_;
};

struct ModelCase {
  std::string model;
  KvType kv_type;
};

// Runs three concurrent requests: a long prompt in chunks, a short one that soon decodes, and one
// that shares the beginning of the first.
std::vector<Answer> all_answers(const ModelCase& c, std::unique_ptr<Backend> backend) {
  auto source = open_model(c.model);
  if (!source) throw std::runtime_error(source.error().message);
  auto loaded =
      load_model({.model = c.model, .kv_type = c.kv_type}, std::move(*source), std::move(backend));
  if (!loaded) throw std::runtime_error(loaded.error().message);
  SteadyClock clock;
  const EngineOptions options = {.kv_budget_bytes = loaded->kv().budget(300, 3),
                                 .kv_type = c.kv_type,
                                 .n_ctx_max = 120,
                                 .max_step_tokens = 48,
                                 .max_running = 3};
  const uint32_t n_vocab = std::min(250u, loaded->model->config().n_vocab - 5);
  auto engine = Engine::create(std::move(loaded->model), *loaded->backend, options, clock);
  if (!engine) throw std::runtime_error(engine.error().message);
  std::vector<Answer> answer(3);
  const uint32_t n_tokens[] = {45, 3, 36};
  for (uint32_t i = 0; i < 3; ++i) {
    Request request;
    for (uint32_t t = 0; t < n_tokens[i]; ++t) {
      request.prompt.push_back(4 + ((i == 1 ? 7 : 0) + t * 7919 + t * t * 31) % n_vocab);
    }
    request.max_tokens = 5;
    request.max_chunk = i == 0 ? 33 : UINT32_MAX;
    request.sampling.temperature = i == 1 ? 1.0f : 0.0f;
    request.sampling.seed = i;
    request.logits = Request::Logits::kAll;
    (*engine)->submit(RequestId{i}, std::move(request), std::make_shared<AnswerSink>(answer[i]));
  }
  while ((*engine)->step()) {
  }
  return answer;
}

void expect_the_cpus(const ModelCase& c) {
  SCOPED_TRACE(fmt::format("{} over {}", c.model, name_of(c.kv_type)));
  const auto expected =
      all_answers(c, std::move(*make_cpu_backend({.n_threads = 1, .isa = "scalar"})));
  host_run::HostDeviceOptions options;
  if (c.kv_type == KvType::kBF16 || c.kv_type == KvType::kInt4) {
    options.order = host_run::Order::kDescending;
  }
  const auto got =
      all_answers(c, std::move(*cuda::make_backend(std::make_unique<HostDevice>(options), 1)));
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_FALSE(expected[i].ids.empty());
    EXPECT_EQ(expected[i].ids, got[i].ids);
    EXPECT_FALSE(expected[i].logits.empty());
    EXPECT_TRUE(testing::same_bytes(expected[i].logits, got[i].logits)) << "request " << i;
  }
}

// Returns whether a model has an operation that the device does not compute.
bool is_refused(const ModelPreset& preset) {
  const Family& family = *find_family(preset.architecture);
  return family.norms.kind != NormKind::kRms || family.activation == Activation::kXielu ||
         preset.kinds.n_streams > 0 || preset.indexer.n_heads > 0;
}

// Returns the presets that the device computes.
std::vector<std::string> test_presets() {
  std::vector<std::string> names;
  for (const ModelPreset& preset : model_presets()) {
    const bool is_test = std::string_view(preset.name).starts_with("test-");
    if (is_test && !is_refused(preset)) names.push_back(preset.name);
  }
  return names;
}

class CudaPreset : public ::testing::TestWithParam<std::string> {};

// Combines weight types and KV types in rotation.
TEST_P(CudaPreset, gives_the_same_bytes_as_the_cpu) {
  constexpr const char* kTypes[] = {"f32", "q8_0", "q4_0", "bf16", "f16"};
  const std::vector<std::string> names = test_presets();
  const size_t i = std::ranges::find(names, GetParam()) - names.begin();
  expect_the_cpus({fmt::format("synthetic:{}:{}", GetParam(), kTypes[i % std::size(kTypes)]),
                   kAllKvTypes[i % std::size(kAllKvTypes)]});
}

INSTANTIATE_TEST_SUITE_P(All, CudaPreset, ::testing::ValuesIn(test_presets()),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST(CudaModels, models_with_other_operations_are_refused_by_name) {
  size_t n_refused = 0;
  for (const ModelPreset& preset : model_presets()) {
    if (!is_refused(preset)) continue;
    ++n_refused;
    const std::string name = fmt::format("synthetic:{}:f32", preset.name);
    auto source = open_model(name);
    ASSERT_TRUE(source);
    auto backend = cuda::make_backend(std::make_unique<HostDevice>(), 1);
    ASSERT_TRUE(backend);
    const auto loaded = load_model({.model = name}, std::move(*source), std::move(*backend));
    ASSERT_FALSE(loaded) << name;
    EXPECT_EQ(loaded.error().code, ErrorCode::kUnsupported);
    EXPECT_THAT(loaded.error().message,
                ::testing::HasSubstr("does not compute, expected --device cpu"));
  }
  EXPECT_GT(n_refused, 0u);
}

TEST(CudaModels, every_weight_and_kv_type_gives_the_same_output_as_the_cpu) {
  size_t i = 0;
  for (const char* type : {"f32", "f16", "bf16", "q8_0", "q4_0", "mxfp4"}) {
    for (size_t j = 0; j < 2; ++j, ++i) {
      expect_the_cpus({fmt::format("synthetic:test-llama:{}", type),
                       kAllKvTypes[(i + i / 4) % std::size(kAllKvTypes)]});
    }
  }
}

TEST(CudaModels, the_demo_gives_the_same_output_as_the_cpu) {
  expect_the_cpus({"demo", KvType::kInt8});
}

}  // namespace
}  // namespace kvik
