// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reflect translates between what the consumer has and what the
// provider has: pods into shadow pods, remote pod statuses into local ones,
// virtual nodes into nodes, and what pods need into copies of it. Everything in it is a pure function of values.
package reflect
