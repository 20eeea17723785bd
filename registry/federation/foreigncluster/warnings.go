// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package foreigncluster

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/trust"
	"liqo.io/federation/registry/federation/subresource/plan"
)

const (
	// longDisconnect is the longest spec.disconnectTimeoutSeconds without a warning.
	longDisconnect = time.Hour
	// shortOrphanTTL is the shortest spec.incomingPolicy.orphanTTL without a warning: during an upgrade, a consumer may
	// not renew its heartbeat for as long.
	shortOrphanTTL = 10 * time.Minute
	// readTimeout is the maximum time that reads for warnings add to a request.
	readTimeout = 2 * time.Second
)

// warnings returns warnings about valid but unusual values in the spec.
func warnings(cluster *federation.ForeignCluster) []string {
	spec := &cluster.Spec
	var found []string
	if ttl := spec.IncomingPolicy.OrphanTTL; ttl != nil && ttl.Duration > 0 && ttl.Duration < shortOrphanTTL {
		found = append(found,
			fmt.Sprintf("spec.incomingPolicy.orphanTTL: if the consumer renews no heartbeat for %s, for example during an "+
				"upgrade, its pods and its peering are deleted", ttl.Duration))
	}
	if spec.Outgoing != federation.PeeringEnabled {
		return found
	}
	if spec.ClusterID == "" {
		found = append(found,
			"spec.clusterID: is empty, so the first cluster that responds at spec.server is accepted; set the "+
				"cluster ID of the provider's invitation")
	}
	if len(spec.CABundle) == 0 && hasAddress(spec.Server) {
		found = append(found,
			"spec.caBundle: is empty, and certificate authorities of the system rarely issue certificates for IP "+
				"addresses; set the bundle of the provider's invitation")
	}
	if seconds := spec.DisconnectTimeoutSeconds; seconds != nil && time.Duration(*seconds)*time.Second > longDisconnect {
		found = append(found,
			fmt.Sprintf("spec.disconnectTimeoutSeconds: unpeering waits up to %s for a provider that cannot be reached",
				time.Duration(*seconds)*time.Second))
	}
	return found
}

// hasAddress reports whether the host of a URL is an IP address.
func hasAddress(server string) bool {
	parsed, err := url.Parse(server)
	if err != nil {
		return false
	}
	_, err = netip.ParseAddr(parsed.Hostname())
	return err == nil
}

// surroundings returns a function that warns about the volumes stored by the peer if an update disables its outgoing
// peering, about running pods of the peer that changed limits would refuse, and about pods on the peer that lose their
// access to the local API server.
func surroundings(plans plan.Reader) func(ctx context.Context, cluster, old *federation.ForeignCluster) []string {
	return func(ctx context.Context, cluster, old *federation.ForeignCluster) []string {
		if old == nil {
			return nil
		}
		ctx, cancel := context.WithTimeout(ctx, readTimeout)
		defer cancel()
		var found []string
		if old.Spec.Outgoing == federation.PeeringEnabled && cluster.Spec.Outgoing != federation.PeeringEnabled {
			found = stored(ctx, plans, cluster.Name)
		}
		pods, before := &cluster.Spec.IncomingPolicy.Pods, &old.Spec.IncomingPolicy.Pods
		refused := cluster.Spec.IncomingPolicy.RefusedPods != old.Spec.IncomingPolicy.RefusedPods
		if cluster.Spec.Trust != old.Spec.Trust || refused || !apiequality.Semantic.DeepEqual(pods, before) {
			found = append(found, beyondLimits(ctx, plans, cluster)...)
		}
		if cluster.Spec.Trust != old.Spec.Trust || cluster.Spec.APIAccess != old.Spec.APIAccess {
			found = append(found, withoutAccess(ctx, plans, cluster)...)
		}
		return found
	}
}

// beyondLimits returns a warning about the running pods of a consumer that the limits in cluster, its ForeignCluster,
// would refuse. It returns none if no pod is refused, or if the pods cannot be read before ctx is done.
func beyondLimits(ctx context.Context, plans plan.Reader, cluster *federation.ForeignCluster) []string {
	external, err := converted(cluster)
	if err != nil {
		return nil
	}
	names, err := plans.BeyondLimits(ctx, cluster.Name, plans.Pods.PodLimits(external))
	if err != nil || len(names) == 0 {
		return nil
	}
	result := "keep running and would be refused if the consumer created them again"
	if cluster.Spec.IncomingPolicy.RefusedPods == federation.RefusedPodsEvict {
		result = "are refused, so that they are evicted"
	}
	return []string{fmt.Sprintf("spec.trust, spec.incomingPolicy.pods: %d running pods %s: %s",
		len(names), result, plan.Listed(names))}
}

// withoutAccess returns warnings about virtual nodes of a provider if cluster, its ForeignCluster, gives their pods no
// access to the local API server: about virtual nodes whose pods lose it, and about those whose own spec.apiAccess
// gives it. It returns none if the VirtualNodes cannot be read before ctx is done.
func withoutAccess(ctx context.Context, plans plan.Reader, cluster *federation.ForeignCluster) []string {
	external, err := converted(cluster)
	if err != nil || trust.APIAccess(external, plans.APIAccess) != v1alpha1.APIAccessDisabled {
		return nil
	}
	own, following, pods, err := plans.WithAccess(ctx, cluster.Name)
	if err != nil {
		return nil
	}
	var warnings []string
	if pods > 0 {
		atOnce := ", and lose access through a tunnel at once"
		if len(own) > 0 {
			// The provider keeps the address of the API server.
			atOnce = ""
		}
		warnings = append(warnings, fmt.Sprintf("spec.trust, spec.apiAccess: %d running pods get no new tokens for the API "+
			"server of this cluster%s: those on the virtual nodes %s", pods, atOnce, plan.Listed(following)))
	}
	if len(own) > 0 {
		warnings = append(warnings, fmt.Sprintf("spec.trust, spec.apiAccess: pods on the virtual nodes %s keep their access "+
			"to the API server of this cluster, because spec.apiAccess of the VirtualNodes gives it", plan.Listed(own)))
	}
	return warnings
}

// converted returns a ForeignCluster in version v1alpha1.
func converted(cluster *federation.ForeignCluster) (*v1alpha1.ForeignCluster, error) {
	external := &v1alpha1.ForeignCluster{}
	return external, v1alpha1.Convert_federation_ForeignCluster_To_v1alpha1_ForeignCluster(cluster, external, nil)
}

// deletion returns a function that warns about the volumes stored by the peer when its ForeignCluster is deleted.
func deletion(plans plan.Reader) func(ctx context.Context, obj runtime.Object) []string {
	return func(ctx context.Context, obj runtime.Object) []string {
		ctx, cancel := context.WithTimeout(ctx, readTimeout)
		defer cancel()
		return stored(ctx, plans, obj.(*federation.ForeignCluster).Name)
	}
}

func stored(ctx context.Context, plans plan.Reader, cluster string) []string {
	names, err := plans.StoredBy(ctx, cluster)
	if err != nil || len(names) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("the cluster stores the volumes %s: what happens to each is set by "+
		"spec.volumes.onUnoffload of the NamespaceOffloading in its namespace, "+
		"Refuse by default; a dry run of the subresource peer lists the results", plan.Listed(names))}
}
