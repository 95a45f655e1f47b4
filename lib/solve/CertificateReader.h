//===- CertificateReader.h - a problem as its certificate says -*- C++ -*-===//
//
// Shared by the check of a bound and the exhaustive search. Everything is computed from the problem
// and the certificate alone, by code that shares nothing with what made the certificate.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_SOLVE_CERTIFICATEREADER_H
#define CLEAVE_LIB_SOLVE_CERTIFICATEREADER_H

#include "lib/solve/Certificate.h"

namespace cleave::solve {

/// The problem with the certificate's contractions, messages and prices worked in, and its removals
/// checked.
class CertificateReader {
public:
  CertificateReader(const Problem &problem, const Certificate &certificate);

  /// Removals and contractions: false where one of them is wrong. Once they are right, any number
  /// of messages and prices can be checked.
  bool checkSteps();
  std::optional<Bound> checkDual(const Certificate &dual);
  /// All of the certificate.
  std::optional<Bound> check();

  static constexpr Cost infinite = ~(Cost(1) << 127);

protected:
  /// All edges between two groups.
  struct Link {
    /// The nodes that lead the groups.
    unsigned first, second;
    std::vector<unsigned> edges;
    /// Where its messages begin.
    size_t messages = 0;
    /// What all its edges together cost, by the first's choice and the second's, where that is
    /// asked for often; otherwise empty.
    std::vector<Cost> sums = {};
  };

  bool checkRemovals();
  bool isImpossible(unsigned node, unsigned choice) const;
  bool contract();
  bool checkGroupRemovals();
  bool isImpossibleForGroup(unsigned leader, unsigned choice) const;
  bool isReplaced(unsigned leader, unsigned choice, unsigned by);
  /// Costs of a choice beside those of the other end of a link that has one edge: what it costs
  /// beside the partner is at `costs[partners[...] * stride]`.
  struct Row {
    const int64_t *costs;
    const unsigned *partners;
    size_t stride;
    int64_t operator[](unsigned partner) const { return costs[partners[partner] * stride]; }
  };
  /// Of a choice of the first, or else of the second.
  Row getRow(const Link &link, bool ofFirst, unsigned own) const;
  bool reparametrise();
  /// Adds the minima of all groups and links to the bound; false if sums overflow.
  bool sumUp();
  /// Without messages, 2^shift times: infinite where forbidden.
  Cost getPlainCost(const Link &link, unsigned first, unsigned second) const;
  /// The same of one choice of the first, or else of the second, beside each of the partners.
  void getPlainCosts(const Link &link, bool ofFirst, unsigned own,
                     llvm::ArrayRef<unsigned> partners, std::vector<Cost> &costs) const;
  std::vector<unsigned> getKept(unsigned leader) const;
  Cost getCost(const Link &link, unsigned first, unsigned second) const;
  Cost getLeast(unsigned leader) const;
  bool isGroupKept(unsigned leader, unsigned choice) const {
    return isKept[nodes[leader].offset + choice];
  }

  const Problem &problem;
  const Certificate *certificate;
  llvm::ArrayRef<Node> nodes;
  std::vector<std::vector<unsigned>> edgesOf;
  /// By choice; of leading nodes, once contracted, those of their groups.
  std::vector<char> isKept;
  bool isInfeasible = false;

  /// By node: what leads its group, and its choice by the group's.
  std::vector<unsigned> leaderOf;
  std::vector<std::vector<unsigned>> choiceOf;
  std::vector<unsigned> leaders;
  /// By leading node: the nodes of the group, the edges within, and the sums of their costs, once
  /// they are asked for.
  std::vector<std::vector<unsigned>> members, innerEdges;
  std::vector<std::vector<Cost>> groupCosts;
  std::vector<Link> links;
  std::vector<std::vector<unsigned>> linksOf;
  /// By choice of a leading node.
  std::vector<Cost> potentials;
  std::vector<Cost> linkMinima;
  Cost bound = 0;
  /// Of two choices beside what is at the other end of a link.
  std::vector<Cost> ownCosts, otherCosts;
  /// By leading node, while removals are checked: what is left of its choices, once that is asked
  /// for.
  std::vector<std::vector<unsigned>> leftOf;
};

} // namespace cleave::solve

#endif // CLEAVE_LIB_SOLVE_CERTIFICATEREADER_H
