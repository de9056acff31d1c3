#include "tier/prefix_file/prefix_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/keyed_hash.h"
#include "base/quantity.h"
#include "tensor/kv_type.h"
#include "tier/page_record.h"

namespace kvik {
namespace {

constexpr uint64_t kPrefixMagic = 0x45584650'4b49564b;  // "KVIKPFXE"
constexpr uint32_t kPrefixVersion = 1;
constexpr uint32_t kSignedFlag = 1;
constexpr uint32_t kMaxSnapshotPages = 1 << 20;
constexpr size_t kModelAt = 56, kModelBytes = 64;
constexpr size_t kKvTypeAt = kModelAt + kModelBytes, kKvTypeBytes = 16;
constexpr size_t kNumericsAt = kKvTypeAt + kKvTypeBytes, kNumericsBytes = 512;
constexpr size_t kTagBytes = sizeof(Sha256Digest);
constexpr size_t kTagAt = kPrefixHeaderBytes - kTagBytes;
constexpr size_t kHashAt = kTagAt - sizeof(Hash128);
static_assert(kNumericsAt + kNumericsBytes <= kHashAt);

// Key of the tags of a file that is not signed: they are checksums then.
constexpr std::string_view kNoKey = "kvik prefix file without a signature";

using HeaderBytes = std::array<std::byte, kPrefixHeaderBytes>;

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

template <class T>
void put_number(std::span<std::byte> out, size_t at, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) out[at + i] = static_cast<std::byte>(value >> (8 * i));
}

template <class T>
T number_at(std::span<const std::byte> in, size_t at) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value |= static_cast<T>(in[at + i]) << (8 * i);
  return value;
}

void put_field(std::span<std::byte> field, std::string_view text) {
  CHECK(text.size() <= field.size());
  std::ranges::copy(std::as_bytes(std::span(text)), field.begin());
}

// Returns the text of a field, which ends at the first zero.
std::string field_at(std::span<const std::byte> in, size_t at, size_t n_bytes) {
  const std::string_view field = text_of(in.subspan(at, n_bytes));
  return std::string(field.substr(0, field.find('\0')));
}

// Returns the header without its tag.
HeaderBytes encode(const PrefixFileHeader& header) {
  HeaderBytes out{};
  const std::span<std::byte> bytes(out);
  put_number(bytes, 0, kPrefixMagic);
  put_number(bytes, 8, kPrefixVersion);
  put_number(bytes, 12, header.is_signed ? kSignedFlag : 0u);
  put_number(bytes, 16, header.n_records);
  put_number(bytes, 24, header.page_bytes);
  put_number(bytes, 32, header.n_tokens);
  put_number(bytes, 40, header.n_groups);
  put_number(bytes, 44, header.n_snapshot_pages);
  put_number(bytes, 48, header.identity.layout_version);
  put_field(bytes.subspan(kModelAt, kModelBytes), header.identity.model);
  put_field(bytes.subspan(kKvTypeAt, kKvTypeBytes), header.identity.kv_type);
  put_field(bytes.subspan(kNumericsAt, kNumericsBytes), header.identity.numerics);
  const Hash128 hash = xxh3_128(bytes.first(kHashAt));
  put_number(bytes, kHashAt, hash.low);
  put_number(bytes, kHashAt + sizeof(hash.low), hash.high);
  return out;
}

PrefixFileHeader decode(std::span<const std::byte> in) {
  return {.identity = {.model = field_at(in, kModelAt, kModelBytes),
                       .kv_type = field_at(in, kKvTypeAt, kKvTypeBytes),
                       .layout_version = number_at<uint32_t>(in, 48),
                       .numerics = field_at(in, kNumericsAt, kNumericsBytes)},
          .page_bytes = number_at<uint64_t>(in, 24),
          .n_groups = number_at<uint32_t>(in, 40),
          .n_snapshot_pages = number_at<uint32_t>(in, 44),
          .n_tokens = number_at<uint64_t>(in, 32),
          .n_records = number_at<uint64_t>(in, 16),
          .is_signed = number_at<uint32_t>(in, 12) == kSignedFlag};
}

std::string_view key_or_none(std::string_view key) { return key.empty() ? kNoKey : key; }

Sha256Digest tag_of_header(std::string_view key, std::span<const std::byte> header) {
  return keyed_hash(key_or_none(key), {"kvik prefix file", text_of(header.first(kTagAt))});
}

Sha256Digest tag_of_record(std::string_view key, const Sha256Digest& before,
                           std::span<const std::byte> record) {
  Sha256 sha;
  sha.add(record);
  return keyed_hash(key_or_none(key),
                    {"kvik prefix record", as_text(before), as_text(sha.finish())});
}

}  // namespace

uint64_t PrefixFileHeader::record_bytes() const { return kRecordHeadBytes + page_bytes; }

// --- writing ---

Result<PrefixFileWriter> PrefixFileWriter::begin(NewFile file, const PrefixFileHeader& header,
                                                 std::string key) {
  const CacheIdentity& identity = header.identity;
  if (identity.model.size() > kModelBytes || identity.kv_type.size() > kKvTypeBytes ||
      identity.numerics.size() > kNumericsBytes || header.page_bytes > kMaxPrefixPageBytes) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("pages of {} bytes computed by '{}' do not fit into a prefix file",
                            header.page_bytes, identity.text()));
  }
  CHECK(header.is_signed == !key.empty());
  HeaderBytes bytes = encode(header);
  const Sha256Digest tag = tag_of_header(key, bytes);
  std::ranges::copy(tag, bytes.begin() + kTagAt);
  TRY(file.reserve(kPrefixHeaderBytes + header.n_records * (header.record_bytes() + kTagBytes)));
  TRY(file.write(bytes));
  return PrefixFileWriter(std::move(file), std::move(key), tag, header.n_records);
}

Result<void> PrefixFileWriter::add(std::span<const std::byte> record) {
  CHECK(n_left_ > 0);
  --n_left_;
  tag_ = tag_of_record(key_, tag_, record);
  TRY(file_.write(record));
  return file_.write(tag_);
}

Result<void> PrefixFileWriter::commit() {
  CHECK(n_left_ == 0);
  return file_.commit();
}

// --- reading ---

std::unexpected<Error> PrefixFileReader::refuse(const std::string& reason) const {
  return fail(ErrorCode::kCorrupt, fmt::format("'{}' {}", path_, reason));
}

std::unexpected<Error> PrefixFileReader::refuse_record(const std::string& reason) const {
  return refuse(
      fmt::format("is damaged: page {} of {} {}", n_read_ + 1, header_.n_records, reason));
}

Result<PrefixFileReader> PrefixFileReader::open(const std::string& path, std::string key) {
  TRY_ASSIGN(InputFile file, InputFile::open(path));
  PrefixFileReader reader(std::move(file), path, std::move(key));
  TRY(reader.read_header());
  reader.rewind();
  return reader;
}

Result<void> PrefixFileReader::read_header() {
  HeaderBytes bytes;
  const uint64_t size = file_.size();
  const auto first = std::span(bytes).first(std::min<uint64_t>(size, bytes.size()));
  TRY(file_.read(0, first));
  if (first.size() < sizeof(kPrefixMagic) || number_at<uint64_t>(first, 0) != kPrefixMagic) {
    return refuse("is not a prefix file: kvik cache export writes them");
  }
  if (first.size() < bytes.size()) return refuse("is truncated: it ends inside its header");
  const auto version = number_at<uint32_t>(bytes, 8);
  if (version != kPrefixVersion) {
    return refuse(
        fmt::format("has version {} of the format, expected {}", version, kPrefixVersion));
  }
  header_ = decode(bytes);
  HeaderBytes same = encode(header_);
  if (!std::ranges::equal(std::span(bytes).first(kTagAt), std::span(same).first(kTagAt))) {
    return refuse("is damaged: its header fails the checksum");
  }
  if (header_.page_bytes == 0 || header_.page_bytes > kMaxPrefixPageBytes ||
      header_.n_groups == 0 || header_.n_groups >= kSnapshotGroup ||
      header_.n_snapshot_pages > kMaxSnapshotPages || header_.n_records == 0) {
    return refuse(fmt::format("is damaged: its header says {} pages of {} bytes in {} layer groups",
                              header_.n_records, header_.page_bytes, header_.n_groups));
  }
  const uint64_t n_rest = size - kPrefixHeaderBytes;
  const uint64_t n_each = header_.record_bytes() + kTagBytes;
  if (n_rest / n_each != header_.n_records || n_rest % n_each != 0) {
    return refuse(fmt::format("is {}: it has {} bytes, and its {} pages take {} each",
                              n_rest / n_each < header_.n_records ? "truncated" : "damaged", size,
                              header_.n_records, n_each));
  }
  if (!key_.empty() && !header_.is_signed) return refuse("is not signed, and a key is given");
  std::ranges::copy(std::span(bytes).subspan(kTagAt), header_tag_.begin());
  if (checks_tags() && header_tag_ != tag_of_header(key_, bytes)) {
    return refuse(header_.is_signed ? "is signed with another key, or was changed"
                                    : "is damaged: its header fails the checksum");
  }
  root_ = root_key(header_.identity.text(), "");
  return {};
}

void PrefixFileReader::rewind() {
  n_read_ = n_before_ = n_tokens_ = 0;
  tag_ = header_tag_;
  parent_ = root_;
  whole_.reset();
}

// Returns whether the page continues the pages that were read, and notes it.
bool PrefixFileReader::follows(const TierPage& page) {
  if (page.root != root_ || page.key != child_key(page.parent, page.tokens)) return false;
  if (page.parent != parent_) {
    if (!whole_ || page.parent != *whole_) return false;
    parent_ = *std::exchange(whole_, std::nullopt);
    n_before_ += kPageTokens;
  }
  if (page.group < kSnapshotGroup && page.tokens.size() == kPageTokens) whole_ = page.key;
  n_tokens_ = std::max(n_tokens_, n_before_ + page.tokens.size());
  return true;
}

Result<std::optional<TierPage>> PrefixFileReader::next(std::span<std::byte> record) {
  CHECK(record.size() == header_.record_bytes());
  if (n_read_ == header_.n_records) {
    if (n_tokens_ == header_.n_tokens) return std::optional<TierPage>();
    return refuse(fmt::format("is damaged: its pages have {} tokens, and its header says {}",
                              n_tokens_, header_.n_tokens));
  }
  const uint64_t at = kPrefixHeaderBytes + n_read_ * (record.size() + kTagBytes);
  Sha256Digest tag;
  TRY(file_.read(at, record));
  TRY(file_.read(at + record.size(), tag));
  auto head = read_record(record);
  if (!head || head->n_bytes != header_.page_bytes) return refuse_record("fails its checksum");
  if (checks_tags()) {
    tag_ = tag_of_record(key_, tag_, record);
    if (tag != tag_) {
      if (header_.is_signed) return refuse_record("is not what the key signed");
      return refuse_record("fails its checksum");
    }
  }
  TierPage& page = head->page;
  const uint32_t n_kinds =
      page.group < kSnapshotGroup ? header_.n_groups : kSnapshotGroup + header_.n_snapshot_pages;
  if (page.group >= n_kinds || !follows(page)) {
    return refuse_record("does not continue the pages before it");
  }
  ++n_read_;
  return std::optional(std::move(page));
}

}  // namespace kvik
