#include "server/operate/merge_metrics.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace kvik {
namespace {

TEST(MergeMetrics, AMetricOfSeveralPagesHasOneHeadAndAllSamples) {
  const std::vector<std::string> pages = {
      "# HELP a First.\n# TYPE a gauge\na{m=\"x\"} 1\n# HELP b Second.\n# TYPE b counter\nb 2\n",
      "# HELP b Second.\n# TYPE b counter\nb{m=\"y\"} 3\n# HELP c Third.\n# TYPE c gauge\nc 4", "",
      "# HELP a First.\n# TYPE a gauge\na{m=\"z\"} 5\n"};
  EXPECT_EQ(merge_metrics(pages),
            "# HELP a First.\n# TYPE a gauge\na{m=\"x\"} 1\na{m=\"z\"} 5\n"
            "# HELP b Second.\n# TYPE b counter\nb 2\nb{m=\"y\"} 3\n"
            "# HELP c Third.\n# TYPE c gauge\nc 4\n");
}

TEST(MergeMetrics, LinesBeforeTheFirstMetricAndEmptyLinesAreLeftOut) {
  const std::vector<std::string> pages = {"stray 1\n\n# TYPE a gauge\n\na 1\n"};
  EXPECT_EQ(merge_metrics(pages), "# TYPE a gauge\na 1\n");
  EXPECT_EQ(merge_metrics({}), "");
}

}  // namespace
}  // namespace kvik
