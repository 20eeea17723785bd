// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package naming

import "time"

const (
	// TenantRole is the ClusterRole of a consumer in its tenant namespace, and the name of
	// the RoleBinding to it.
	TenantRole = "federation-tenant"
	// TenantTokenRole is the ClusterRole that permits to request tokens of the account
	// TenantAccount, and the name of the RoleBinding to it.
	TenantTokenRole = "federation-tenant-token"
	// TenantManagerRole is the ClusterRole that permits the controllers of a provider to
	// create that account and the Lease HeartbeatLease, and the name of the RoleBinding to
	// it.
	TenantManagerRole = "federation-tenant-manager"
	// TenantAccount is the service account in a tenant namespace of a consumer without a
	// certificate.
	TenantAccount = "federation-peer"
	// HeartbeatLease is the Lease in a tenant namespace that the consumer renews. The
	// provider creates it.
	HeartbeatLease = "federation-heartbeat"
	// HeartbeatInterval is the time between two renewals of that Lease.
	HeartbeatInterval = 20 * time.Second
)
