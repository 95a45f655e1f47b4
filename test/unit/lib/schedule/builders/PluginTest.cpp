// Loads the example's module and uses its schedule by name.
#include "test/unit/lib/schedule/TestUtils.h"

#include "mlir/Tools/Plugins/PassPlugin.h"

#include <dlfcn.h>

using namespace cleave::schedule;

namespace {
TEST(Plugin, RegistersItsScheduleWhenLoaded) {
  EXPECT_EQ(ScheduleRegistry::global().find("sequential"), nullptr);
  void *module = dlopen(SEQUENTIAL_SCHEDULE_MODULE, RTLD_NOW);
  ASSERT_NE(module, nullptr) << dlerror();
  // Loading does nothing; the tool that loads it asks it to register what it has.
  EXPECT_EQ(ScheduleRegistry::global().find("sequential"), nullptr);
  auto getInfo =
      reinterpret_cast<decltype(mlirGetPassPluginInfo) *>(dlsym(module, "mlirGetPassPluginInfo"));
  ASSERT_NE(getInfo, nullptr) << dlerror();
  getInfo().registerPassRegistryCallbacks();
  const ScheduleBuilder *builder = ScheduleRegistry::global().find("sequential");
  ASSERT_NE(builder, nullptr);
  unsigned count = forEachLegal(*builder, [&](const BuildRequest &request, Schedule compute) {
    SCOPED_TRACE(describe(*builder, request));
    ASSERT_EQ(verifyText(orFail(insertP2P(compute))), "");
  });
  EXPECT_EQ(count, 5u * 4u * 32u);
}
} // namespace
