// Rows of a table: what they say, what their source fills in, what is refused with its column.

#include "lib/predict/Layout.h"

#include <gtest/gtest.h>

using namespace cleave::predict;

namespace {
struct LayoutTest : testing::Test {
  LayoutTest() {
    defaults.software["tool"] = {};
    Source source;
    source.software = "tool";
    source.vocabulary = 1000;
    defaults.sources["paper"] = source;
    set({{"source", "paper"},
         {"arch", "dense"},
         {"layers", "8"},
         {"hidden", "64"},
         {"ffn", "256"},
         {"heads", "4"},
         {"seq", "16"},
         {"global_batch", "32"},
         {"micro_batch", "2"},
         {"gpus", "16"},
         {"gpus_per_node", "8"},
         {"dp", "4"},
         {"tp", "2"},
         {"pp", "2"},
         {"fsdp_zero", "0"},
         {"schedule", "1f1b"},
         {"recompute", "none"},
         {"precision", "bf16"},
         {"attention", "flash"}});
  }
  void set(std::initializer_list<std::pair<const char *, const char *>> fields) {
    table.rows.resize(1);
    for (auto [name, value] : fields) {
      auto found = llvm::find(table.header, name);
      if (found == table.header.end()) {
        table.header.push_back(name);
        table.rows[0].push_back(value);
      } else {
        table.rows[0][size_t(found - table.header.begin())] = value;
      }
    }
  }
  llvm::Expected<Layout> read() { return readLayout(Row(table, 0), defaults); }
  std::string fail() {
    auto layout = read();
    return layout ? "" : llvm::toString(layout.takeError());
  }

  Table table;
  Defaults defaults;
};
} // namespace

TEST_F(LayoutTest, ReadsARow) {
  Layout layout = llvm::cantFail(read());
  EXPECT_EQ(layout.microbatches, 4);
  EXPECT_EQ(layout.chunks, 1);
  EXPECT_EQ(layout.context, 1);
  EXPECT_EQ(layout.vocabulary, 1000);
  ASSERT_EQ(layout.notes.size(), 1u);
  EXPECT_EQ(layout.notes[0], "vocab: 1000 assumed");
}

TEST_F(LayoutTest, NeverReadsMeasurements) {
  set({{"step_time_s", "not a number"}, {"peak_memory_gib", "?"}, {"tflops_per_gpu", "-"}});
  EXPECT_EQ(fail(), "");
}

TEST_F(LayoutTest, ReadsExpertsAndSharding) {
  set({{"arch", "moe128top8"}, {"fsdp_zero", "zero1"}, {"ep", "4"}, {"recompute", "3/8 layers"}});
  Layout layout = llvm::cantFail(read());
  EXPECT_EQ(layout.experts, 128);
  EXPECT_EQ(layout.expertsPerToken, 8);
  EXPECT_EQ(layout.shardStage, 1);
  EXPECT_EQ(layout.shardRanks, 4);
  EXPECT_DOUBLE_EQ(layout.recomputedLayers, 0.375);
}

TEST_F(LayoutTest, TakesWhatTheSourcePublishedOfAModel) {
  defaults.sources["paper"].layouts = {{8, 128, 1, 1}, {8, 64, 4, 2}};
  set({{"schedule", ""}, {"vocab", "1000"}});
  Layout layout = llvm::cantFail(read());
  EXPECT_EQ(layout.microBatch, 2); // the row says so
  EXPECT_EQ(layout.chunks, 2);
  EXPECT_EQ(layout.notes, std::vector<std::string>{"vpp: 2, which the source published"});
  set({{"micro_batch", ""}, {"vpp", "4"}});
  layout = llvm::cantFail(read());
  EXPECT_EQ(layout.microBatch, 4);
  EXPECT_EQ(layout.microbatches, 2);
  EXPECT_EQ(layout.chunks, 4);
  EXPECT_EQ(layout.notes, std::vector<std::string>{"micro_batch: 4, which the source published"});
  set({{"hidden", "256"}});
  EXPECT_EQ(llvm::cantFail(read()).microBatch, 0);
  // Another batch than that of the source.
  set({{"hidden", "64"}, {"global_batch", "8"}});
  EXPECT_EQ(llvm::cantFail(read()).microBatch, 0);
}

TEST_F(LayoutTest, TakesTheRecipeOfItsVariant) {
  Recipe overlaps, others;
  overlaps.variants = {"overlap"};
  overlaps.sets = {{"overlaps_experts", 1}};
  others.sets = {{"fills_stages", 1}};
  defaults.sources["paper"].recipes = {overlaps, others};
  set({{"extra", "container=26.06;variant=overlap"}});
  Layout layout = llvm::cantFail(read());
  EXPECT_EQ(layout.software.overlapsExperts, 1);
  EXPECT_EQ(layout.software.fillsStages, 0);
  set({{"extra", "container=26.06"}});
  layout = llvm::cantFail(read());
  EXPECT_EQ(layout.software.overlapsExperts, 0);
  EXPECT_EQ(layout.software.fillsStages, 1);
}

TEST_F(LayoutTest, AVariantOfAModelMayBeDescribedByItself) {
  defaults.models["net"].predictions = 1;
  defaults.models["net (short)"].gated = 1;
  set({{"model", "net (long)"}});
  EXPECT_EQ(llvm::cantFail(read()).dimensions.predictions, 1);
  set({{"model", "net (short)"}});
  EXPECT_EQ(llvm::cantFail(read()).dimensions.predictions, 0);
}

TEST_F(LayoutTest, RefusesWhatContradictsItself) {
  set({{"microbatches", "5"}});
  EXPECT_EQ(fail(), "microbatches: expected global_batch / dp / micro_batch = 4, found 5");
  set({{"micro_batch", ""}});
  EXPECT_EQ(fail(), "microbatches: expected a divisor of global_batch / dp = 8, found 5");
  set({{"microbatches", "4"}, {"kv_heads", "3"}});
  EXPECT_EQ(fail(), "kv_heads: expected a divisor of heads = 4, found 3");
  set({{"kv_heads", "2"}, {"fsdp_zero", "fsdp3"}});
  EXPECT_EQ(fail(), "fsdp_zero: expected a divisor of dp = 4 ranks, found 'fsdp3'");
  set({{"fsdp_zero", "fsdp2"}, {"schedule", "gpipe"}});
  EXPECT_EQ(fail(), "schedule: expected 1f1b, 1f1b-interleaved or none, found 'gpipe'");
  set({{"schedule", "1f1b (interleaving not stated)"}});
  EXPECT_EQ(fail(), "");
}

TEST_F(LayoutTest, RefusesWithTheColumn) {
  set({{"gpus", "17"}});
  EXPECT_EQ(fail(), "gpus: expected dp x tp x pp x cp = 16, found 17");
  set({{"gpus", "16"}, {"global_batch", "30"}});
  EXPECT_EQ(fail(), "global_batch: expected a multiple of dp = 4, found 30");
  set({{"global_batch", "32"}, {"micro_batch", "3"}});
  EXPECT_EQ(fail(), "micro_batch: expected a divisor of global_batch / dp = 8, found 3");
  set({{"micro_batch", "2"}, {"precision", "int3"}});
  EXPECT_EQ(fail(), "precision: expected fp16, bf16, fp8, mxfp8 or nvfp4, found 'int3'");
  set({{"precision", "fp8"}, {"arch", "moe"}});
  EXPECT_EQ(fail(), "arch: expected 'dense' or 'moe<EXPERTS>top<CHOSEN>', found 'moe'");
  set({{"arch", "dense"}, {"layers", ""}});
  EXPECT_EQ(fail(), "layers: expected a number, the field is empty");
  set({{"layers", "99999999999"}});
  EXPECT_EQ(fail(), "layers: expected a whole number from 1 to 10000000, found '99999999999'");
  set({{"layers", "5000"}, {"pp", "5000"}, {"dp", "1"}, {"tp", "1"}, {"gpus", "5000"}});
  EXPECT_EQ(fail(),
            "pp: expected at most 1024 pipeline ranks and 4096 stages, found 5000 and 5000");
  set({{"layers", "8"}, {"pp", "2"}, {"dp", "4"}, {"tp", "2"}, {"gpus", "16"}, {"heads", "100"}});
  EXPECT_EQ(fail(), "heads: expected at most hidden = 64, found 100");
  set({{"heads", "4"}, {"arch", "moe8top2"}, {"ep", "3"}});
  EXPECT_EQ(fail(), "ep: expected a divisor of 8 experts and of dp x tp x cp = 8, found 3");
  set({{"ep", ""}, {"arch", "dense"}, {"cp", "2"}, {"dp", "2"}, {"seq", "15"}});
  EXPECT_EQ(fail(), "cp: expected a divisor of seq = 15, found 2");
  set({{"cp", ""}, {"dp", "4"}, {"seq", "16"}, {"source", "other"}});
  EXPECT_EQ(fail(), "source: expected one that the file of defaults has, found 'other'");
}
