#include "service/history/answer_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/file/atomic_file.h"
#include "base/file/private_files.h"
#include "base/file/record.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/process/thread.h"

namespace kvik {
namespace {

constexpr std::string_view kBegin = "kvik answers 1\n";

std::string checksum_of(std::string_view bytes) {
  const Hash128 hash = xxh3_128(std::as_bytes(std::span(bytes)));
  return fmt::format("{:016x}{:016x}", hash.high, hash.low);
}

void put(RecordWriter& out, const AnswerMemory::Stored& stored) {
  out.text(stored.client);
  out.bytes(stored.key);
  out.number(stored.answer->ids.size());
  out.bytes(std::as_bytes(std::span(stored.answer->ids)));
  out.text(stored.answer->opening);
  out.text(stored.answer->reasoning);
}

std::optional<AnswerMemory::Stored> next_answer(RecordReader& in) {
  AnswerMemory::Stored stored;
  stored.client = in.text();
  const std::string_view key = in.bytes(sizeof(ConversationKey));
  const uint64_t n_ids = in.number();
  const std::string_view ids =
      n_ids <= UINT32_MAX ? in.bytes(n_ids * sizeof(TokenId)) : in.bytes(UINT64_MAX);
  RememberedAnswer answer;
  answer.opening = in.text();
  answer.reasoning = in.text();
  if (!in.is_whole()) return std::nullopt;
  std::memcpy(stored.key.data(), key.data(), key.size());
  answer.ids.resize(n_ids);
  if (n_ids > 0) std::memcpy(answer.ids.data(), ids.data(), ids.size());
  stored.answer = std::make_shared<const RememberedAnswer>(std::move(answer));
  return stored;
}

constexpr std::string_view kNameBegin = "answers-";

}  // namespace

std::string AnswerFile::path_in(const std::string& folder, std::string_view fingerprint) {
  return fmt::format("{}/{}{:.16}", folder, kNameBegin, fingerprint);
}

void AnswerFile::remove_all(const std::string& folder) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    if (entry.path().filename().string().starts_with(kNameBegin))
      std::filesystem::remove(entry.path(), ignored);
  }
}

AnswerFile::AnswerFile(std::string path, Model model, std::shared_ptr<AnswerMemory> memory,
                       Duration pause)
    : path_(std::move(path)), model_(std::move(model)), memory_(std::move(memory)), pause_(pause) {
  if (const auto loaded = load(); !loaded && loaded.error().code != ErrorCode::kNotFound)
    log::warn("remembered answers are not read: {}", loaded.error().message);
  n_saved_changes_ = memory_->n_changes();
  auto writer = start_thread("kvik-answers", [this] { save_changes(); });
  if (writer) writer_ = std::move(*writer);
}

AnswerFile::~AnswerFile() {
  {
    const MutexLock lock(mutex_);
    is_ending_ = true;
  }
  wake_.notify_all();
  join_if_started(writer_);
  save();
}

Result<void> AnswerFile::load() {
  TRY(prepare_private_file(path_));
  constexpr uint64_t kHead = 1024;
  TRY_ASSIGN(const std::string bytes, read_whole(path_, 2 * memory_->max_bytes() + kHead));
  constexpr size_t kChecksum = 32;
  const bool is_long = bytes.size() >= kBegin.size() + kChecksum;
  const std::string_view all = bytes;
  const std::string_view checked = all.substr(0, is_long ? all.size() - kChecksum : 0);
  if (!checked.starts_with(kBegin) || checksum_of(checked) != all.substr(checked.size()))
    return fail(ErrorCode::kCorrupt,
                fmt::format("'{}' is damaged: the next answers replace it", path_));
  RecordReader in(checked.substr(kBegin.size()));
  if (in.text() != model_.fingerprint) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("'{}' is that of another model: the next answers replace it", path_));
  }
  const auto is_foreign = [this](TokenId id) { return id >= model_.n_vocab; };
  while (in.n_left() > 0) {
    auto stored = next_answer(in);
    if (!stored || std::ranges::any_of(stored->answer->ids, is_foreign)) {
      return fail(ErrorCode::kCorrupt,
                  fmt::format("'{}' holds an answer that this model cannot give", path_));
    }
    memory_->remember(stored->client, stored->key, *stored->answer);
  }
  return {};
}

void AnswerFile::save() {
  const uint64_t n_changes = memory_->n_changes();
  if (n_changes == n_saved_changes_) return;
  RecordWriter out;
  out.text(model_.fingerprint);
  for (const AnswerMemory::Stored& stored : memory_->all()) put(out, stored);
  std::string bytes = std::string(kBegin) + std::move(out).take();
  bytes += checksum_of(bytes);
  const auto written = write_atomically(path_, bytes, kPrivateFile);
  if (written) n_saved_changes_ = n_changes;
  if (written || std::exchange(has_warned_, true)) return;
  log::warn("remembered answers are not stored: {}", written.error().message);
}

void AnswerFile::save_changes() {
  const MutexLock lock(mutex_);
  for (;;) {
    wake_.wait_for(mutex_, pause_, [this]() REQUIRES(mutex_) { return is_ending_; });
    if (is_ending_) return;  // the destructor saves
    mutex_.unlock();
    save();
    mutex_.lock();
  }
}

}  // namespace kvik
