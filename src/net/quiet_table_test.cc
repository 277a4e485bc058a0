#include "net/quiet_table.h"

#include <gtest/gtest.h>

#include <string>

namespace boxlite::net {
namespace {

using std::chrono::milliseconds;

struct QuietTableTest : ::testing::Test {
    std::unique_ptr<base::EventLoop> loop = base::EventLoop::make().value();
    std::string closed;
    // Capitals have more patience.
    QuietTable<char, char> table{*loop, 3, milliseconds(20),
                                 [](char value) { return milliseconds(value < 'a' ? 100000 : 20); },
                                 [this](char& value) { closed += value; }};

    void put(const std::string& values) {
        for (const char value : values) table.insert(value, value);
    }
    void run_for(milliseconds time) {
        loop->after(time, [this] { loop->stop(); });
        ASSERT_TRUE(loop->run().ok());
    }
};

TEST_F(QuietTableTest, TheOneThatWasQuietLongestMakesRoom) {
    put("abc");
    EXPECT_EQ(*table.use('a'), 'a');
    put("de");
    EXPECT_EQ(closed, "bc");
    EXPECT_EQ(table.use('b'), nullptr);
    EXPECT_NE(table.use('a'), nullptr);
}

TEST_F(QuietTableTest, WhatIsQuietForLongerThanItsPatienceGoes) {
    put("aBc");
    run_for(milliseconds(100));
    EXPECT_EQ(closed, "ac");
    put("d");
    run_for(milliseconds(100));
    EXPECT_EQ(closed, "acd") << "the timer goes on for those that come later";
    EXPECT_NE(table.use('B'), nullptr);
}

TEST_F(QuietTableTest, EachIsClosedOnce) {
    {
        QuietTable<char, char> other(
            *loop, 3, milliseconds(20), [](char) { return milliseconds(20); },
            [this](char& value) { closed += value; });
        for (const char value : {'x', 'y', 'z'}) other.insert(value, value);
        other.close('y');
        other.close('y');
        other.close_if([](char key, char&) { return key == 'z'; });
    }
    EXPECT_EQ(closed, "yzx");
}

}  // namespace
}  // namespace boxlite::net
