// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package provider maintains the PersistentVolumeClaim of each ShadowVolumeClaim and its volume on a provider, also
// while the consumer is unreachable.
//
// Claims have no owner reference, because the garbage collector would delete them after a restore of the federation's
// store. The reclaim policy of a bound volume is set to Retain, so that only the deletion of a ShadowVolumeClaim with
// deletion policy Delete deletes data. The deletion of one with policy Retain releases the consumer's quota
// immediately; from then on, the retained volume belongs to the provider.
package provider
