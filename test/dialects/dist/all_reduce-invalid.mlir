// RUN: cleave-opt %s --split-input-file --verify-diagnostics

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @no_axis(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.all_reduce' op expects at least one mesh axis}}
  %0 = dist.all_reduce sum(%a) over @mesh [] : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @axis_twice(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.all_reduce' op lists mesh axis 'tp' twice}}
  %0 = dist.all_reduce sum(%a) over @mesh ["tp", "tp"] : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @no_mesh(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.all_reduce' op refers to mesh @no_mesh, which the module does not define}}
  %0 = dist.all_reduce sum(%a) over @no_mesh ["tp"] : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @not_a_mesh(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.all_reduce' op refers to mesh @not_a_mesh, which the module does not define}}
  %0 = dist.all_reduce sum(%a) over @not_a_mesh ["tp"] : tensor<8xf32>
  return
}

// -----

// expected-note @+1 {{the mesh is defined here}}
dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @unknown_axis(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.all_reduce' op runs along axis 'dp', which mesh @mesh does not have}}
  %0 = dist.all_reduce sum(%a) over @mesh ["dp"] : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @no_operand() {
  // expected-error @+1 {{'dist.all_reduce' op expects at least one operand}}
  "dist.all_reduce"() {reduction = #dist.reduction<sum>, mesh = @mesh, axes = ["tp"]} : () -> ()
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @results_and_operands(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.all_reduce' op expects one result for each of its 1 operands, found 0}}
  "dist.all_reduce"(%a) {reduction = #dist.reduction<sum>, mesh = @mesh, axes = ["tp"]} : (tensor<8xf32>) -> ()
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @some_started(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.all_reduce' op expects futures as all results or as none: the coalesced form is one communication}}
  %0:2 = dist.all_reduce sum(%a, %a) over @mesh ["tp"] : tensor<8xf32>, tensor<8xf32> -> tensor<8xf32>, !dist.future<tensor<8xf32>>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @future_without_value(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.all_reduce' op result #0 must be variadic of statically shaped tensor of numbers or booleans, or a future of one, but got '!dist.future<none>'}}
  %0 = dist.all_reduce sum(%a) over @mesh ["tp"] : tensor<8xf32> -> !dist.future<none>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @dynamic_shape(%a: tensor<?xf32>) {
  // expected-error @+1 {{'dist.all_reduce' op operand #0 must be variadic of statically shaped tensor of numbers or booleans, but got 'tensor<?xf32>'}}
  %0 = dist.all_reduce sum(%a) over @mesh ["tp"] : tensor<?xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @index_elements(%a: tensor<8xindex>) {
  // expected-error @+1 {{'dist.all_reduce' op operand #0 must be variadic of statically shaped tensor of numbers or booleans, but got 'tensor<8xindex>'}}
  %0 = dist.all_reduce sum(%a) over @mesh ["tp"] : tensor<8xindex>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @unknown_reduction(%a: tensor<8xf32>) {
  // expected-error @+1 {{expected a reduction (sum, avg, premul_sum, max, min, product, band, bor, bxor), found 'median'}}
  %0 = dist.all_reduce median(%a) over @mesh ["tp"] : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @no_reduction(%a: tensor<8xf32>) {
  // expected-error @+1 {{expected a reduction (sum, avg, premul_sum, max, min, product, band, bor, bxor)}}
  %0 = dist.all_reduce (%a) over @mesh ["tp"] : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @premul_sum_without_factor(%a: tensor<8xf32>) {
  // expected-error @+1 {{expected the factor of the premul_sum: premul_sum<0.5>}}
  %0 = dist.all_reduce premul_sum(%a) over @mesh ["tp"] : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @sum_with_factor(%a: tensor<8xf32>) {
  // expected-error @+1 {{expected no factor: only premul_sum has one, found 'sum'}}
  %0 = dist.all_reduce sum<0.5>(%a) over @mesh ["tp"] : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @infinite_factor(%a: tensor<8xf32>) {
  // expected-error @+1 {{expected a finite f64 factor of the premul_sum, found 0x7FF0000000000000 : f64}}
  %0 = "dist.all_reduce"(%a) {reduction = #dist.reduction<premul_sum<0x7FF0000000000000>>, mesh = @mesh, axes = ["tp"]} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @sum_of_booleans(%a: tensor<8xi1>) {
  // expected-error @+1 {{'dist.all_reduce' op cannot reduce values of type 'tensor<8xi1>' by 'sum', which takes numbers; booleans have 'band', 'bor' and 'bxor'}}
  %0 = dist.all_reduce sum(%a) over @mesh ["tp"] : tensor<8xi1>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @max_of_booleans(%a: tensor<8xi1>) {
  // expected-error @+1 {{'dist.all_reduce' op cannot reduce values of type 'tensor<8xi1>' by 'max', which takes numbers; booleans have 'band', 'bor' and 'bxor'}}
  %0 = dist.all_reduce max(%a) over @mesh ["tp"] : tensor<8xi1>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @mean_of_integers(%a: tensor<8xi64>) {
  // expected-error @+1 {{'dist.all_reduce' op cannot reduce values of type 'tensor<8xi64>' by 'avg', which takes floating-point numbers}}
  %0 = dist.all_reduce avg(%a) over @mesh ["tp"] : tensor<8xi64>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @premul_sum_of_integers(%a: tensor<8xi64>) {
  // expected-error @+1 {{'dist.all_reduce' op cannot reduce values of type 'tensor<8xi64>' by 'premul_sum', which takes floating-point numbers}}
  %0 = dist.all_reduce premul_sum<2.0>(%a) over @mesh ["tp"] : tensor<8xi64>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @bitwise_on_floats(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.all_reduce' op cannot reduce values of type 'tensor<8xf32>' by 'bxor', which takes integers and booleans}}
  %0 = dist.all_reduce bxor(%a) over @mesh ["tp"] : tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @other_shape(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.all_reduce' op expects a result of shape [8] and element type 'f32', found 'tensor<4xf32>'}}
  %0 = dist.all_reduce sum(%a) over @mesh ["tp"] : tensor<8xf32> -> tensor<4xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @other_rank(%a: tensor<2x4xf32>) {
  // expected-error @+1 {{'dist.all_reduce' op expects a result of shape [2, 4] and element type 'f32', found 'tensor<8xf32>'}}
  %0 = dist.all_reduce sum(%a) over @mesh ["tp"] : tensor<2x4xf32> -> tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @other_element_type(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dist.all_reduce' op expects a result of shape [8] and element type 'f32', found 'tensor<8xf64>'}}
  %0 = dist.all_reduce sum(%a) over @mesh ["tp"] : tensor<8xf32> -> tensor<8xf64>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#P = #dist.on<@mesh, tp = P>

func.func @half_typed(%a: tensor<8xf32, #P>) {
  // expected-error @+1 {{'dist.all_reduce' op expects placements on operand and result or on neither, found 'tensor<8xf32, #dist.on<@mesh, tp = P>>' and 'tensor<8xf32>'}}
  %0 = dist.all_reduce sum(%a) over @mesh ["tp"] : tensor<8xf32, #P> -> tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @foreign_encoding(%a: tensor<8xf32, "other">) {
  // expected-error @+1 {{'dist.all_reduce' op expects a placement (#dist.on) or no encoding, found 'tensor<8xf32, "other">'}}
  %0 = dist.all_reduce sum(%a) over @mesh ["tp"] : tensor<8xf32, "other">
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#other = #dist.on<@other, tp = V>

func.func @types_on_another_mesh(%a: tensor<8xf32, #other>) {
  // expected-error @+1 {{'dist.all_reduce' op runs over mesh @mesh, but a type is on mesh @other: 'tensor<8xf32, #dist.on<@other, tp = V>>'}}
  %0 = dist.all_reduce sum(%a) over @mesh ["tp"] : tensor<8xf32, #other>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#P = #dist.on<@mesh, tp = P>
#R_R = #dist.on<@mesh, cp = R, tp = R>

func.func @types_on_other_axes(%a: tensor<8xf32, #P>) {
  // expected-error @+1 {{'dist.all_reduce' op expects placements on the same axes, found 'tensor<8xf32, #dist.on<@mesh, tp = P>>' and 'tensor<8xf32, #dist.on<@mesh, cp = R, tp = R>>'}}
  %0 = dist.all_reduce sum(%a) over @mesh ["tp"] : tensor<8xf32, #P> -> tensor<8xf32, #R_R>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#R = #dist.on<@mesh, tp = R>

func.func @doubled(%a: tensor<8xf32, #R>) {
  // expected-error @+1 {{'dist.all_reduce' op cannot take R to R along axis 'tp': the value is the same on all ranks already (dist.all_reduce takes P(k) to R or I; V to V, R or I)}}
  %0 = dist.all_reduce sum(%a) over @mesh ["tp"] : tensor<8xf32, #R>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#I = #dist.on<@mesh, tp = I>

func.func @invariant(%a: tensor<8xf32, #I>) {
  // expected-error @+1 {{'dist.all_reduce' op cannot take I to I along axis 'tp': the value is the same on all ranks already (dist.all_reduce takes P(k) to R or I; V to V, R or I)}}
  %0 = dist.all_reduce sum(%a) over @mesh ["tp"] : tensor<8xf32, #I>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#R = #dist.on<@mesh, tp = R>
#I = #dist.on<@mesh, tp = I>

func.func @replicated_to_invariant(%a: tensor<8xf32, #R>) {
  // expected-error @+1 {{'dist.all_reduce' op cannot take R to I along axis 'tp': use dist.convert (dist.all_reduce takes P(k) to R or I; V to V, R or I)}}
  %0 = dist.all_reduce sum(%a) over @mesh ["tp"] : tensor<8xf32, #R> -> tensor<8xf32, #I>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#R = #dist.on<@mesh, tp = R>
#S0 = #dist.on<@mesh, tp = S(0)>

func.func @shards(%a: tensor<8xf32, #S0>) {
  // expected-error @+1 {{'dist.all_reduce' op cannot take S(0) to R along axis 'tp': use dist.reinterpret to V, then dist.all_reduce (dist.all_reduce takes P(k) to R or I; V to V, R or I)}}
  %0 = dist.all_reduce sum(%a) over @mesh ["tp"] : tensor<8xf32, #S0> -> tensor<8xf32, #R>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#P = #dist.on<@mesh, tp = P>

func.func @partial_stays(%a: tensor<8xf32, #P>) {
  // expected-error @+1 {{'dist.all_reduce' op cannot take P to P along axis 'tp' (dist.all_reduce takes P(k) to R or I; V to V, R or I)}}
  %0 = dist.all_reduce sum(%a) over @mesh ["tp"] : tensor<8xf32, #P>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#P = #dist.on<@mesh, tp = P>
#S0 = #dist.on<@mesh, tp = S(0)>

func.func @partial_to_shard(%a: tensor<8xf32, #P>) {
  // expected-error @+1 {{'dist.all_reduce' op cannot take P to S(0) along axis 'tp': use dist.reduce_scatter, whose result is one rank's part of the operand (dist.all_reduce takes P(k) to R or I; V to V, R or I)}}
  %0 = dist.all_reduce sum(%a) over @mesh ["tp"] : tensor<8xf32, #P> -> tensor<8xf32, #S0>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#R = #dist.on<@mesh, tp = R>
#P = #dist.on<@mesh, tp = P>

func.func @another_reduction(%a: tensor<8xf32, #P>) {
  // expected-error @+1 {{'dist.all_reduce' op reduces P by 'max' along axis 'tp': a pending reduction requires its own, 'sum'}}
  %0 = dist.all_reduce max(%a) over @mesh ["tp"] : tensor<8xf32, #P> -> tensor<8xf32, #R>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#R = #dist.on<@mesh, tp = R>
#P = #dist.on<@mesh, tp = P>

func.func @premul_sum_of_partial(%a: tensor<8xf32, #P>) {
  // expected-error @+1 {{'dist.all_reduce' op reduces P by 'premul_sum' along axis 'tp': a pending reduction requires its own, 'sum'}}
  %0 = dist.all_reduce premul_sum<0.5>(%a) over @mesh ["tp"] : tensor<8xf32, #P> -> tensor<8xf32, #R>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#I = #dist.on<@mesh, tp = I>
#Pmax = #dist.on<@mesh, tp = P(max)>

func.func @sum_of_pending_max(%a: tensor<8xf32, #Pmax>) {
  // expected-error @+1 {{'dist.all_reduce' op reduces P(max) by 'sum' along axis 'tp': a pending reduction requires its own, 'max'}}
  %0 = dist.all_reduce sum(%a) over @mesh ["tp"] : tensor<8xf32, #Pmax> -> tensor<8xf32, #I>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#P_P = #dist.on<@mesh, cp = P, tp = P>

func.func @two_transitions(%a: tensor<8xf32, #P_P>) {
  // expected-error @+1 {{'dist.all_reduce' op makes the same transition on all its axes, found P to R along axis 'cp' and P to I along axis 'tp': use one op for each}}
  %0 = dist.all_reduce sum(%a) over @mesh ["cp", "tp"] : tensor<8xf32, #P_P> -> tensor<8xf32, #dist.on<@mesh, cp = R, tp = I>>
  return
}

// -----

dist.mesh @mesh ["tp" = 2, "cp" = 3]
#R_R = #dist.on<@mesh, cp = R, tp = R>
#P_P = #dist.on<@mesh, cp = P, tp = P>

func.func @another_axis_changes(%a: tensor<8xf32, #P_P>) {
  // expected-error @+1 {{'dist.all_reduce' op does not run along axis 'cp', which must stay P, found R}}
  %0 = dist.all_reduce sum(%a) over @mesh ["tp"] : tensor<8xf32, #P_P> -> tensor<8xf32, #R_R>
  return
}

// -----

// expected-note @+1 {{the mesh is defined here}}
dist.mesh @mesh ["tp" = 2, "cp" = 3]
#P = #dist.on<@mesh, tp = P>

func.func @axis_not_in_types(%a: tensor<8xf32, #P>) {
  // expected-error @+1 {{'dist.all_reduce' op runs along axis 'cp', on which a type has no placement: 'tensor<8xf32, #dist.on<@mesh, tp = P>>'}}
  %0 = dist.all_reduce sum(%a) over @mesh ["cp"] : tensor<8xf32, #P>
  return
}

// -----

// expected-note @+1 {{the mesh is defined here}}
dist.mesh @mesh ["tp" = 2, "cp" = 3]

func.func @axis_not_on_mesh(%a: tensor<8xf32, #dist.on<@mesh, dp = R, tp = P>>) {
  // expected-error @+1 {{'dist.all_reduce' op has a type with axis 'dp', which mesh @mesh does not have: 'tensor<8xf32, #dist.on<@mesh, dp = R, tp = P>>'}}
  %0 = dist.all_reduce sum(%a) over @mesh ["tp"] : tensor<8xf32, #dist.on<@mesh, dp = R, tp = P>> -> tensor<8xf32, #dist.on<@mesh, dp = R, tp = R>>
  return
}
