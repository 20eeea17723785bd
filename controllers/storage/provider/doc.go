// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package provider maintains the claims of consumers on a provider, also while a consumer is
// unreachable: the PersistentVolumeClaim of each ShadowVolumeClaim and its volume.
//
// No claim has an owner reference: after a restore of the federation's store the garbage
// collector would delete it. A volume is set to Retain once it is bound, so that only a
// ShadowVolumeClaim with deletion policy Delete deletes data. Deleting one with policy Retain
// releases the consumer's quota at once: the kept volume belongs to the provider from then on.
package provider
