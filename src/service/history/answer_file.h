#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"
#include "service/history/answer_memory.h"

namespace kvik {

// Keeps the answers of a memory in a file, so that conversations continue the cached prefix after a
// restart. They are read when the file is opened. A thread writes all of them a minute after a
// change, and the destructor writes the last changes; a killed process loses those of the last
// minute. The file has a checksum and the fingerprint of the model: a damaged file, and one of
// another model, is ignored and replaced.
class AnswerFile {
 public:
  static constexpr std::chrono::seconds kPause{60};

  // Returns the path of a model's file in a folder.
  static std::string path_in(const std::string& folder, std::string_view fingerprint);
  // Removes the files of all models from a folder.
  static void remove_all(const std::string& folder);

  struct Model {
    std::string fingerprint;
    uint32_t n_vocab = 0;
  };
  // A file that cannot be read or written is logged.
  AnswerFile(std::string path, Model model, std::shared_ptr<AnswerMemory> memory,
             Duration pause = kPause);
  ~AnswerFile();

 private:
  Result<void> load();
  void save();
  void save_changes();

  const std::string path_;
  const Model model_;
  const std::shared_ptr<AnswerMemory> memory_;
  const Duration pause_;
  uint64_t n_saved_changes_ = 0;  // AnswerMemory::n_changes() that the file has
  bool has_warned_ = false;
  std::thread writer_;
  Mutex mutex_;
  bool is_ending_ GUARDED_BY(mutex_) = false;
  CondVar wake_;
};

}  // namespace kvik
