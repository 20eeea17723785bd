// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package naming

import "time"

const (
	// TenantRole is the name of the ClusterRole with the permissions of a consumer in its tenant
	// namespace, and of the RoleBinding to this ClusterRole.
	TenantRole = "federation-tenant"
	// TenantTokenRole is the name of the ClusterRole that permits requests for tokens of the
	// ServiceAccount TenantAccount, and of the RoleBinding to this ClusterRole.
	TenantTokenRole = "federation-tenant-token"
	// TenantManagerRole is the name of the ClusterRole that permits the controllers of a provider to
	// create the ServiceAccount TenantAccount and the Lease HeartbeatLease in a tenant namespace, and
	// of the RoleBinding to this ClusterRole.
	TenantManagerRole = "federation-tenant-manager"
	// TenantAccount is the name of the ServiceAccount in a tenant namespace that is the identity of a
	// consumer without a certificate.
	TenantAccount = "federation-peer"
	// HeartbeatLease is the name of the Lease in a tenant namespace that is the heartbeat. The provider
	// creates it, and the consumer renews it.
	HeartbeatLease = "federation-heartbeat"
	// HeartbeatInterval is the time between two renewals of HeartbeatLease.
	HeartbeatInterval = 20 * time.Second
	// RemoteNamespaceQuota is the name of the ResourceQuota in each remote namespace.
	RemoteNamespaceQuota = "federation"
)
