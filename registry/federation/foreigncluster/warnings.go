// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package foreigncluster

import (
	"fmt"
	"net/netip"
	"net/url"
	"time"

	"liqo.io/federation/apiserver/apis/federation"
)

const (
	// longDisconnect is how long unpeering may take without a warning.
	longDisconnect = time.Hour
	// shortOrphanTTL is how long an upgrade of a cluster may take.
	shortOrphanTTL = 10 * time.Minute
)

// warnings tell what is seldom meant of a cluster.
func warnings(cluster *federation.ForeignCluster) []string {
	spec := &cluster.Spec
	var found []string
	if ttl := spec.Lending.OrphanTTL; ttl != nil && ttl.Duration > 0 && ttl.Duration < shortOrphanTTL {
		found = append(found, fmt.Sprintf("spec.lending.orphanTTL: a cluster that is away for %s, as for an upgrade, loses what runs here for it, and the peering", ttl.Duration))
	}
	if spec.Outgoing != federation.PeeringEnabled {
		return found
	}
	if spec.ClusterID == "" {
		found = append(found, "spec.clusterID: is empty, so whichever cluster answers at spec.server first is believed; the provider's invitation carries its id")
	}
	if len(spec.CABundle) == 0 && hasAddress(spec.Server) {
		found = append(found, "spec.caBundle: is empty, and the certificate authorities of the system seldom vouch for an IP address; the provider's invitation carries its own")
	}
	if seconds := spec.DisconnectTimeoutSeconds; seconds != nil && time.Duration(*seconds)*time.Second > longDisconnect {
		found = append(found, fmt.Sprintf("spec.disconnectTimeoutSeconds: unpeering waits up to %s for a provider that does not answer", time.Duration(*seconds)*time.Second))
	}
	return found
}

// hasAddress tells whether the host of a URL is an IP address.
func hasAddress(server string) bool {
	parsed, err := url.Parse(server)
	if err != nil {
		return false
	}
	_, err = netip.ParseAddr(parsed.Hostname())
	return err == nil
}
