#include "base/process/thread.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>

#include <future>
#include <thread>

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

TEST(Thread, of_low_priority_comes_after_those_of_its_process) {
  std::thread([] {
    setpriority(PRIO_PROCESS, 0, 5);
    lower_thread_priority();
    EXPECT_EQ(getpriority(PRIO_PROCESS, 0), 15);
    lower_thread_priority();
    EXPECT_EQ(getpriority(PRIO_PROCESS, 0), 19) << "the highest there is";
  }).join();
}

}  // namespace
}  // namespace kvik
