#include "base/process/thread.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <future>

namespace kvik {
namespace {

TEST(Thread, is_shown_under_its_name) {
  std::promise<void> end;
  auto thread = start_thread("kvik-of-a-test", [&] { end.get_future().wait(); });
  ASSERT_TRUE(thread.has_value());
  char name[16] = {};
  EXPECT_EQ(pthread_getname_np(thread->native_handle(), name, sizeof name), 0);
  EXPECT_STREQ(name, "kvik-of-a-test");
  end.set_value();
  thread->join();
}

}  // namespace
}  // namespace kvik
