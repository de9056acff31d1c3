#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/file/atomic_file.h"
#include "base/printable.h"
#include "base/quantity.h"
#include "main/commands.h"
#include "main/exit_code.h"
#include "main/model_flags.h"
#include "model/adapter.h"
#include "server/dialects/attest/attestation_json.h"
#include "study/verify/replay.h"

namespace kvik {
namespace {

constexpr size_t kMaxAnswerBytes = size_t{256} << 20;

struct VerifyOptions {
  ModelOptions model;
  std::vector<std::string> files;
};

struct StoredAnswer {
  std::string path;
  AttestedAnswer answer;
};

std::unexpected<Error> in_file(const std::string& path, Error error) {
  error.message = fmt::format("{}: {}", path, error.message);
  return std::unexpected(std::move(error));
}

// Reads all answers. They are computed by one engine, so they must have the same KV type.
Result<std::vector<StoredAnswer>> read_answers(const std::vector<std::string>& paths) {
  std::vector<StoredAnswer> files;
  for (const std::string& path : paths) {
    TRY_ASSIGN(const std::string text, read_whole(path, kMaxAnswerBytes));
    auto answer = read_attested_answer(text);
    if (!answer) return in_file(path, answer.error());
    if (!kv_type_from_name(answer->kv_type)) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("{}: the KV type is '{}', expected {}", path,
                              printable(answer->kv_type), kKvTypeNames));
    }
    if (!files.empty() && answer->kv_type != files.front().answer.kv_type) {
      return fail(
          ErrorCode::kInvalidArgument,
          fmt::format("the KV type is {} in {} and {} in {}: verify them separately",
                      files.front().answer.kv_type, files.front().path, answer->kv_type, path));
    }
    files.push_back({path, std::move(*answer)});
  }
  return files;
}

// Returns why the answer cannot have come from this model; std::nullopt if it can.
std::optional<std::string> other_model(const AttestedAnswer& answer, const std::string& model,
                                       const std::string& adapter) {
  if (answer.model != model) {
    return fmt::format(
        "another model computed the answer: its fingerprint is {}, that of MODEL is {}",
        printable(answer.model), model);
  }
  for (const AttestedAnswer::Prompt& prompt : answer.prompts) {
    if (prompt.request.adapter == adapter) continue;
    const auto name = [](const std::string& digest) {
      return digest.empty() ? std::string("no adapter") : "the adapter " + printable(digest);
    };
    return fmt::format("the answer was computed with {}, MODEL has {} (--adapter)",
                       name(prompt.request.adapter), name(adapter));
  }
  return std::nullopt;
}

// Verifies all choices. Prints a line for each that differs; returns their number.
Result<uint32_t> verify_choices(Replay& replay, const StoredAnswer& file) {
  uint32_t n_different = 0, index = 0;
  uint64_t n_tokens = 0;
  bool is_constrained = false;
  for (const AttestedAnswer::Prompt& prompt : file.answer.prompts) {
    is_constrained |= prompt.request.is_constrained;
    for (uint32_t i = 0; i < prompt.choices.size(); ++i, ++index) {
      n_tokens += prompt.choices[i].ids.size();
      auto difference = replay.verify(prompt.request, i, prompt.choices[i]);
      if (!difference) return in_file(file.path, difference.error());
      if (!*difference) continue;
      ++n_different;
      streams::print("{}: choice {}: {}\n", file.path, index, **difference);
    }
  }
  if (n_different > 0) return n_different;
  streams::print("{}: equal: {} of {} and the logits that they were sampled from{}\n", file.path,
                 counted(n_tokens, "token"), counted(index, "choice"),
                 is_constrained ? " (a constraint chose among them, which is not verified)" : "");
  return 0u;
}

Result<int> verify(VerifyOptions options) {
  TRY_ASSIGN(const std::vector<StoredAnswer> files, read_answers(options.files));
  options.model.kv_type = *kv_type_from_name(files.front().answer.kv_type);
  TRY_ASSIGN(LoadedModel loaded, load_model(options.model));
  const std::string model = loaded.model->fingerprint(), numerics = loaded.model->numerics();
  const std::string adapter = loaded.adapter ? loaded.adapter->digest() : "";
  uint64_t n_ctx = 0;
  for (const StoredAnswer& file : files) n_ctx = std::max(n_ctx, longest_sequence(file.answer));
  if (n_ctx > loaded.n_ctx) {
    return fail(ErrorCode::kContextLength,
                fmt::format("the answers have up to {} tokens, the context has {} (--ctx)", n_ctx,
                            loaded.n_ctx));
  }
  TRY_ASSIGN(const auto replay, Replay::create(loaded, static_cast<uint32_t>(n_ctx)));
  bool is_equal = true;
  for (const StoredAnswer& file : files) {
    if (const auto reason = other_model(file.answer, model, adapter)) {
      streams::print("{}: {}\n", file.path, *reason);
      is_equal = false;
      continue;
    }
    if (file.answer.numerics != numerics) {
      streams::print_error(
          fmt::format("kvik: {}: computed with other arithmetic ({}, here {}), so its bits may "
                      "differ",
                      file.path, printable(file.answer.numerics), numerics));
    }
    TRY_ASSIGN(const uint32_t n_different, verify_choices(*replay, file));
    is_equal = is_equal && n_different == 0;
  }
  return is_equal ? kExitOk : kExitFailed;
}

}  // namespace

void add_verify(CommandLine& line) {
  auto options = std::make_shared<VerifyOptions>();
  Flags flags = line.add(
      "verify", "Compute answers of a server again, and compare tokens and logits bit by bit",
      [options] { return finish(verify(*options)); });
  add_model_flags(flags, options->model);
  add_adapter_flag(flags, options->model);
  flags.describe("--kv-type", "not used: the answers name the type");
  flags.add("Verification",
            {
                Flag("ANSWER", &options->files,
                     "answers of /v1/completions or /v1/chat/completions as JSON, to requests with "
                     "\"kvik\": {\"attest\": true}")
                    .required(),
            });
  flags.examples({
      "kvik verify model.gguf answer.json",
  });
}

}  // namespace kvik
