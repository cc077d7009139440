// SPDX-License-Identifier: MIT
// From smallest delays and hops to a first target.
#include <gtest/gtest.h>

#include "path_model.h"

using namespace swift;

namespace {

TEST(PathModel, FindsBaseAndSlope)
{
	// 12 us without a hop, 1.5 us each.
	const PathSample paths[] = { { 1, 13'500 }, { 3, 16'500 }, { 5, 19'500 } };
	const auto model = fit_paths(paths);

	ASSERT_TRUE(model);
	EXPECT_NEAR(model->intercept_ns, 12'000, 1e-6);
	EXPECT_NEAR(*model->hop_ns, 1'500, 1e-6);
	const auto p = propose_target(*model, 777);

	EXPECT_EQ(p.hop_target_ns, 1'500U);
	EXPECT_EQ(p.base_target_ns + p.hop_target_ns, 27'000U); // twice the shortest path
	EXPECT_EQ(p.reason, "the shortest path (1 hop) takes 13.5 us unloaded, and gets as much "
			    "again for a queue; a hop adds 1.50 us");
}

TEST(PathModel, PathsThatWereNeverIdleDoNotTilt)
{
	std::vector<PathSample> paths;

	for (unsigned hops = 1; hops <= 6; hops++)
		for (int n = 0; n < 4; n++)
			paths.push_back({ hops, 12'000.0 + 1'500 * hops });
	paths[0].unloaded_ns += 200'000;
	paths[9].unloaded_ns += 80'000;
	paths[23].unloaded_ns += 400'000;
	const auto model = fit_paths(paths);

	ASSERT_TRUE(model);
	EXPECT_NEAR(model->intercept_ns, 12'000, 200);
	EXPECT_NEAR(*model->hop_ns, 1'500, 50);
}

TEST(PathModel, WithoutADifferenceInHopsTheSlopeStays)
{
	const PathSample paths[] = { { 2, 20'000 }, { 2, 22'000 }, { {}, 1'000 } };
	const auto model = fit_paths(paths);

	ASSERT_TRUE(model);
	EXPECT_FALSE(model->hop_ns);
	EXPECT_DOUBLE_EQ(model->shortest_ns(), 21'000);
	const auto p = propose_target(*model, 1'000);

	EXPECT_EQ(p.hop_target_ns, 1'000U);
	EXPECT_EQ(p.base_target_ns, 40'000U);
	EXPECT_NE(p.reason.find("not known"), std::string::npos);
}

TEST(PathModel, WithoutHopsThereIsStillALength)
{
	const PathSample paths[] = { { {}, 13'000 } };
	const auto p = propose_target(*fit_paths(paths), 1'000);

	EXPECT_EQ(p.base_target_ns, 26'000U);
	EXPECT_EQ(p.hop_target_ns, 1'000U);
	EXPECT_EQ(p.reason, "the shortest path takes 13.0 us unloaded, and gets as much again for a queue");
}

TEST(PathModel, AHopNeverTakesLessThanNothing)
{
	const PathSample paths[] = { { 1, 30'000 }, { 5, 10'000 } };
	const auto model = fit_paths(paths);

	ASSERT_TRUE(model);
	EXPECT_EQ(*model->hop_ns, 0);
	EXPECT_EQ(propose_target(*model, 5).hop_target_ns, 0U);
	EXPECT_FALSE(fit_paths({}));
	// At the edges of what the module takes.
	const PathSample tiny[] = { { 0, 1 } };

	EXPECT_EQ(propose_target(*fit_paths(tiny), 0).base_target_ns, 1'000U);
	const PathSample huge[] = { { 0, 1e12 } };

	EXPECT_EQ(propose_target(*fit_paths(huge), 0).base_target_ns, 1'000'000'000U);
}

} // namespace
