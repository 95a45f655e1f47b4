// RUN: cleave-opt %s --sync-gradients --split-input-file --verify-diagnostics

// expected-error @below {{expects a program: a function with train.phase = #train.phase<microbatch>}}
module {
  func.func @f() {
    return
  }
}

// -----

// expected-error @below {{expects a program: a function with train.phase = #train.phase<microbatch>}}
module {
func.func @update(%w: tensor<4xf32> {train.role = #train.role<parameter "w">},
                  %g: tensor<4xf32> {train.role = #train.role<gradient "w">})
    -> (tensor<4xf32> {train.role = #train.role<parameter "w">})
    attributes {train.phase = #train.phase<update>} {
  return %g : tensor<4xf32>
}
}

// -----

// A gradient of an input is nothing to reduce.
// expected-error @below {{has no gradients of parameters to reduce; export it for training, or run --autodiff first}}
module {
func.func @microbatch(%w: tensor<4xf32> {train.role = #train.role<parameter "w">},
                      %x: tensor<4xf32> {train.role = #train.role<input "x" batch 0>})
    -> (tensor<4xf32> {train.role = #train.role<gradient "x">})
    attributes {train.phase = #train.phase<microbatch>} {
  return %w : tensor<4xf32>
}
}

// -----

func.func @microbatch(%w: tensor<4xf32> {train.role = #train.role<parameter "w">})
    -> (tensor<4xf32> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<microbatch>} {
  return %w : tensor<4xf32>
}
// expected-error @below {{already reduces gradients; a second sum would scale them}}
func.func @reduce(%g: tensor<4xf32> {train.role = #train.role<gradient "w">})
    -> (tensor<4xf32> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<reduce>} {
  return %g : tensor<4xf32>
}

// -----

// expected-note @below {{the first is here}}
func.func @microbatch(%w: tensor<4xf32> {train.role = #train.role<parameter "w">})
    -> (tensor<4xf32> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<microbatch>} {
  return %w : tensor<4xf32>
}

// expected-error @below {{is a second function of phase microbatch}}
func.func @again(%w: tensor<4xf32> {train.role = #train.role<parameter "w">})
    -> (tensor<4xf32> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<microbatch>} {
  return %w : tensor<4xf32>
}

// -----

func.func @microbatch(%w: tensor<4xf32> {train.role = #train.role<parameter "w">})
    -> (tensor<4xf32> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<microbatch>} {
  return %w : tensor<4xf32>
}

// expected-note @below {{the first is here}}
func.func @update(%w: tensor<4xf32> {train.role = #train.role<parameter "w">},
                  %g: tensor<4xf32> {train.role = #train.role<gradient "w">})
    -> (tensor<4xf32> {train.role = #train.role<parameter "w">})
    attributes {train.phase = #train.phase<update>} {
  return %g : tensor<4xf32>
}

// expected-error @below {{is a second function of phase update}}
func.func @again(%w: tensor<4xf32> {train.role = #train.role<parameter "w">},
                  %g: tensor<4xf32> {train.role = #train.role<gradient "w">})
    -> (tensor<4xf32> {train.role = #train.role<parameter "w">})
    attributes {train.phase = #train.phase<update>} {
  return %g : tensor<4xf32>
}

// -----

// expected-note @below {{the microbatch function has none with that name}}
func.func @microbatch(%w: tensor<4xf32> {train.role = #train.role<parameter "w">})
    -> (tensor<4xf32> {train.role = #train.role<gradient "v">})
    attributes {train.phase = #train.phase<microbatch>} {
  return %w : tensor<4xf32>
}

// expected-error @below {{takes #train.role<gradient "w"> of type 'tensor<4xf32>'}}
func.func @update(%w: tensor<4xf32> {train.role = #train.role<parameter "w">},
                  %g: tensor<4xf32> {train.role = #train.role<gradient "w">})
    -> (tensor<4xf32> {train.role = #train.role<parameter "w">})
    attributes {train.phase = #train.phase<update>} {
  return %g : tensor<4xf32>
}

// -----

// expected-note @below {{the microbatch function has none with that name}}
func.func @microbatch(%w: tensor<4xf32> {train.role = #train.role<input "w">})
    -> (tensor<4xf32> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<microbatch>} {
  return %w : tensor<4xf32>
}

// expected-error @below {{takes #train.role<parameter "w"> of type 'tensor<4xf32>'}}
func.func @update(%w: tensor<4xf32> {train.role = #train.role<parameter "w">},
                  %g: tensor<4xf32> {train.role = #train.role<gradient "w">})
    -> (tensor<4xf32> {train.role = #train.role<parameter "w">})
    attributes {train.phase = #train.phase<update>} {
  return %g : tensor<4xf32>
}

// -----

// expected-note @below {{the microbatch function has it with type 'tensor<4xf32>'}}
func.func @microbatch(%w: tensor<4xf32> {train.role = #train.role<parameter "w">})
    -> (tensor<4xf32> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<microbatch>} {
  return %w : tensor<4xf32>
}

// expected-error @below {{takes #train.role<parameter "w"> of type 'tensor<2xf32>'}}
func.func @update(%w: tensor<2xf32> {train.role = #train.role<parameter "w">},
                  %g: tensor<2xf32> {train.role = #train.role<gradient "w">})
    -> (tensor<2xf32> {train.role = #train.role<parameter "w">})
    attributes {train.phase = #train.phase<update>} {
  return %g : tensor<2xf32>
}

// -----

// expected-error @below {{has no axis named 'dp', over which gradients are to be reduced}}
dist.mesh @mesh ["tp" = 2]

func.func @microbatch(%w: tensor<4xf32> {train.role = #train.role<parameter "w">})
    -> (tensor<4xf32> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<microbatch>} {
  return %w : tensor<4xf32>
}

func.func @update(%w: tensor<4xf32> {train.role = #train.role<parameter "w">},
                  %g: tensor<4xf32> {train.role = #train.role<gradient "w">})
    -> (tensor<4xf32> {train.role = #train.role<parameter "w">})
    attributes {train.phase = #train.phase<update>} {
  return %g : tensor<4xf32>
}

// -----

dist.mesh @mesh ["dp" = 2]

// expected-error @below {{is a second mesh; expected one mesh to reduce over}}
dist.mesh @other ["dp" = 2]

func.func @microbatch(%w: tensor<4xf32> {train.role = #train.role<parameter "w">})
    -> (tensor<4xf32> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<microbatch>} {
  return %w : tensor<4xf32>
}

func.func @update(%w: tensor<4xf32> {train.role = #train.role<parameter "w">},
                  %g: tensor<4xf32> {train.role = #train.role<gradient "w">})
    -> (tensor<4xf32> {train.role = #train.role<parameter "w">})
    attributes {train.phase = #train.phase<update>} {
  return %g : tensor<4xf32>
}

// -----

dist.mesh @mesh ["dp" = 2]

func.func @microbatch(%w: tensor<4xf32> {train.role = #train.role<parameter "w">})
    -> (tensor<4xf32> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<microbatch>} {
  return %w : tensor<4xf32>
}

// expected-error @below {{reduces #train.role<gradient "w"> over 'dp' already; a second sum would scale it}}
func.func @update(%w: tensor<4xf32> {train.role = #train.role<parameter "w">},
                  %g: tensor<4xf32> {train.role = #train.role<gradient "w">})
    -> (tensor<4xf32> {train.role = #train.role<parameter "w">})
    attributes {train.phase = #train.phase<update>} {
  // expected-note @below {{reduced here}}
  %sum = dist.all_reduce sum(%g) over @mesh ["dp"] : tensor<4xf32>
  return %sum : tensor<4xf32>
}

// -----

// Types say what is summed, and an update that they fit sums it.
dist.mesh @mesh ["dp" = 2]
func.func @microbatch(%w: tensor<4xf32, #dist.on<@mesh, dp = R>> {train.role = #train.role<parameter "w">},
                      %g: tensor<4xf32, #dist.on<@mesh, dp = P>> {train.role = #train.role<input "g">})
    -> (tensor<4xf32, #dist.on<@mesh, dp = P>> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<microbatch>} {
  return %g : tensor<4xf32, #dist.on<@mesh, dp = P>>
}
// expected-error @below {{takes #train.role<gradient "w"> of type 'tensor<4xf32, #dist.on<@mesh, dp = P>>'; the update of a program with placements already contains the sums that its types require}}
func.func @update(%w: tensor<4xf32, #dist.on<@mesh, dp = R>> {train.role = #train.role<parameter "w">},
                  %g: tensor<4xf32, #dist.on<@mesh, dp = P>> {train.role = #train.role<gradient "w">})
    -> (tensor<4xf32, #dist.on<@mesh, dp = R>> {train.role = #train.role<parameter "w">})
    attributes {train.phase = #train.phase<update>} {
  return %w : tensor<4xf32, #dist.on<@mesh, dp = R>>
}

// -----

func.func @microbatch(%w: tensor<4xf32> {train.role = #train.role<parameter "w">})
    -> (tensor<4xf32> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<microbatch>} {
  return %w : tensor<4xf32>
}

// Each rank would divide by the norm of its own gradient.
// expected-error @below {{returns #train.role<gradient "w">, which it has of a rank's own microbatches; sum gradients over 'dp' before --scale-loss and --clip-gradients}}
func.func @reduce(%g: tensor<4xf32> {train.role = #train.role<gradient "w">})
    -> (tensor<4xf32> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<reduce>} {
  %norm = aten.linalg_vector_norm(%g) : (tensor<4xf32>) -> tensor<f32>
  %scaled = aten.div(%g, %norm) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %scaled : tensor<4xf32>
}

func.func @update(%w: tensor<4xf32> {train.role = #train.role<parameter "w">},
                  %g: tensor<4xf32> {train.role = #train.role<gradient "w">})
    -> (tensor<4xf32> {train.role = #train.role<parameter "w">})
    attributes {train.phase = #train.phase<update>} {
  return %g : tensor<4xf32>
}
