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

// Parsed, an answer takes up to 26 times as much memory.
constexpr size_t kMaxAnswerBytes = size_t{32} << 20;
constexpr int kNotChecked = 2;  // an answer could not be checked, and no other differs

struct VerifyOptions {
  ModelOptions model;
  std::vector<std::string> files;
};

struct StoredAnswer {
  std::string path;
  AttestedAnswer answer;
};

struct Verified {
  uint32_t n_different = 0, n_unchecked = 0;  // answers
};

std::unexpected<Error> in_file(const std::string& path, Error error) {
  error.message = fmt::format("{}: {}", path, error.message);
  return std::unexpected(std::move(error));
}

Result<AttestedAnswer> read_answer(const std::string& path) {
  TRY_ASSIGN(const std::string text, read_whole(path, kMaxAnswerBytes));
  auto answer = read_attested_answer(text);
  if (!answer) return in_file(path, answer.error());
  if (kv_type_from_name(answer->kv_type)) return answer;
  return fail(ErrorCode::kInvalidArgument, fmt::format("{}: the KV type is '{}', expected {}", path,
                                                       printable(answer->kv_type), kKvTypeNames));
}

// Reports why an answer could not be checked.
void note_unchecked(const Error& error, Verified& verified) {
  report(error);
  ++verified.n_unchecked;
}

// Reads all answers that can be read. They are computed by one engine, so they must have the same
// KV type.
std::vector<StoredAnswer> read_answers(const std::vector<std::string>& paths, Verified& verified) {
  std::vector<StoredAnswer> files;
  for (const std::string& path : paths) {
    auto answer = read_answer(path);
    if (answer && !files.empty() && answer->kv_type != files.front().answer.kv_type) {
      answer = fail(
          ErrorCode::kInvalidArgument,
          fmt::format("the KV type is {} in {} and {} in {}: verify them separately",
                      files.front().answer.kv_type, files.front().path, answer->kv_type, path));
    }
    if (answer) {
      files.push_back({path, std::move(*answer)});
    } else {
      note_unchecked(answer.error(), verified);
    }
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
      auto difference = replay.verify(
          prompt.request, i, static_cast<uint32_t>(prompt.choices.size()), prompt.choices[i]);
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
  Verified verified;
  std::vector<StoredAnswer> files = read_answers(options.files, verified);
  if (files.empty()) return kNotChecked;
  options.model.kv_type = *kv_type_from_name(files.front().answer.kv_type);
  TRY_ASSIGN(LoadedModel loaded, load_model(options.model));
  const std::string model = loaded.model->fingerprint(), numerics = loaded.model->numerics();
  const std::string adapter = loaded.adapter ? loaded.adapter->digest() : "";
  uint64_t n_ctx = 1;
  for (const StoredAnswer& file : files) {
    const uint64_t n_tokens = longest_sequence(file.answer);
    if (n_tokens <= loaded.n_ctx) n_ctx = std::max(n_ctx, n_tokens);
  }
  TRY_ASSIGN(const auto replay, Replay::create(loaded, static_cast<uint32_t>(n_ctx)));
  for (const StoredAnswer& file : files) {
    if (const auto reason = other_model(file.answer, model, adapter)) {
      streams::print("{}: {}\n", file.path, *reason);
      ++verified.n_different;
      continue;
    }
    if (longest_sequence(file.answer) > loaded.n_ctx) {
      note_unchecked(
          {.code = ErrorCode::kContextLength,
           .message = fmt::format("{}: the answer has up to {} tokens, the context has {} (--ctx)",
                                  file.path, longest_sequence(file.answer), loaded.n_ctx)},
          verified);
      continue;
    }
    if (file.answer.numerics != numerics) {
      streams::print_error(
          fmt::format("kvik: {}: computed with other arithmetic ({}, here {}), so its bits may "
                      "differ",
                      file.path, printable(file.answer.numerics), numerics));
    }
    const auto n_different = verify_choices(*replay, file);
    if (!n_different) {
      note_unchecked(n_different.error(), verified);
    } else if (*n_different > 0) {
      ++verified.n_different;
    }
  }
  if (verified.n_different > 0) return kExitFailed;
  return verified.n_unchecked > 0 ? kNotChecked : kExitOk;
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
  flags.add(
      "Verification",
      {
          Flag("ANSWER", &options->files,
               "answers of /v1/completions or /v1/chat/completions as JSON, to requests with "
               "\"kvik\": {\"attest\": true}; the exit code is 1 if one differs, 2 if one could "
               "not be checked")
              .required(),
      });
  flags.examples({
      "kvik verify model.gguf answer.json",
  });
}

}  // namespace kvik
