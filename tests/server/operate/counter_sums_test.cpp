#include "server/operate/counter_sums.h"

#include <gtest/gtest.h>

namespace kvik {
namespace {

using Reader = CounterSums::Reader;

std::string page(int steps, int running) {
  return "# HELP steps Steps.\n# TYPE steps counter\nsteps{m=\"a b\"} " + std::to_string(steps) +
         "\n# HELP running Now.\n# TYPE running gauge\nrunning " + std::to_string(running) + "\n";
}

std::string counters(int steps) { return CounterSums::counters_in(page(steps, 0)); }

TEST(CounterSums, counters_go_on_after_a_reload_and_gauges_do_not) {
  CounterSums sums;
  EXPECT_EQ(sums.with_earlier("a", 1, page(5, 2), Reader::kOperator), page(5, 2));
  EXPECT_EQ(sums.page_of("a"), counters(5));  // it does not answer, and has not ended
  sums.end("a", 1, counters(7));              // two steps after the last page
  EXPECT_EQ(sums.page_of("a"), counters(7));
  EXPECT_EQ(sums.with_earlier("a", 2, page(1, 3), Reader::kOperator), page(8, 3));
  sums.end("a", 2, counters(1));
  EXPECT_EQ(sums.page_of("a"), counters(8));
  EXPECT_EQ(sums.page_of("b"), "");
}

TEST(CounterSums, of_a_crashed_process_the_last_page_counts) {
  CounterSums sums;
  static_cast<void>(sums.with_earlier("a", 1, page(5, 2), Reader::kOperator));
  sums.end("a", 1, "");
  EXPECT_EQ(sums.page_of("a"), counters(5));
  sums.end("a", 1, "");  // it crashed again before it was ready
  EXPECT_EQ(sums.page_of("a"), counters(5));
  // The page of a process that has ended meanwhile is not counted twice.
  EXPECT_EQ(sums.with_earlier("a", 1, page(6, 2), Reader::kOperator), counters(5));
  EXPECT_EQ(sums.with_earlier("a", 2, page(0, 0), Reader::kOperator), page(5, 0));
}

TEST(CounterSums, samples_that_a_new_process_lacks_stay) {
  CounterSums sums;
  sums.end(
      "a", 1,
      "# TYPE codes counter\ncodes{code=\"200\"} 1\ncodes{code=\"404\"} 2\n# TYPE old counter\n"
      "old 3\n");
  EXPECT_EQ(
      sums.with_earlier("a", 2, "# TYPE codes counter\ncodes{code=\"200\"} 4\n", Reader::kOperator),
      "# TYPE codes counter\ncodes{code=\"200\"} 5\ncodes{code=\"404\"} 2\n# TYPE old counter\nold "
      "3\n");
}

TEST(CounterSums, a_tenant_sees_sums_of_its_own_lines_only) {
  CounterSums sums;
  sums.end("a", 1, "# TYPE key counter\nkey{k=\"x\"} 1\nkey{k=\"y\"} 2\n");
  EXPECT_EQ(sums.with_earlier("a", 2, "# TYPE key counter\nkey{k=\"y\"} 4\n", Reader::kTenant),
            "# TYPE key counter\nkey{k=\"y\"} 6\n");
  sums.end("a", 2, "");
  EXPECT_EQ(sums.with_earlier("a", 2, "# TYPE key counter\nkey{k=\"y\"} 4\n", Reader::kTenant), "");
}

TEST(CounterSums, buckets_of_histograms_are_summed) {
  CounterSums sums;
  const std::string one =
      "# TYPE h histogram\nh_bucket{le=\"1\"} 1\nh_bucket{le=\"+Inf\"} 2\nh_sum 1.5\nh_count 2\n";
  sums.end("a", 1, one);
  EXPECT_EQ(
      sums.with_earlier("a", 2, one, Reader::kOperator),
      "# TYPE h histogram\nh_bucket{le=\"1\"} 2\nh_bucket{le=\"+Inf\"} 4\nh_sum 3\nh_count 4\n");
}

}  // namespace
}  // namespace kvik
