// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

const (
	// MaxDisconnectSeconds is the maximum of spec.disconnectTimeoutSeconds of a ForeignCluster, one
	// day.
	MaxDisconnectSeconds int32 = 86400

	maxToken = 16 << 10

	// maxAnswer is the maximum length of the reason of a decision, in characters.
	maxAnswer = 256
)

// ValidateForeignCluster validates a new foreign cluster.
func ValidateForeignCluster(cluster *federation.ForeignCluster) field.ErrorList {
	errs := clusterMetadata(cluster, false)
	errs = append(errs, foreignClusterSpec(&cluster.Spec)...)
	return append(errs, knownResources(&cluster.Spec, &federation.ForeignClusterSpec{})...)
}

// ValidateForeignClusterUpdate validates an update of a foreign cluster.
func ValidateForeignClusterUpdate(cluster, old *federation.ForeignCluster) field.ErrorList {
	errs := metadataUpdate(cluster, old)
	errs = append(errs, foreignClusterSpec(&cluster.Spec)...)
	errs = append(errs, knownResources(&cluster.Spec, &old.Spec)...)
	return append(errs, onceSet(cluster.Spec.ClusterID, old.Spec.ClusterID, specPath.Child("clusterID"))...)
}

// ValidateForeignClusterStatusUpdate validates an update of the status of a foreign cluster.
func ValidateForeignClusterStatusUpdate(cluster, old *federation.ForeignCluster) field.ErrorList {
	status := &cluster.Status
	errs := metadataUpdate(cluster, old)
	errs = append(errs, notNegative(status.ObservedGeneration, statusPath.Child("observedGeneration"))...)
	errs = append(errs, peeringPhase(status.OutgoingPeering, statusPath.Child("outgoingPeering"))...)
	errs = append(errs, peeringPhase(status.IncomingPeering, statusPath.Child("incomingPeering"))...)
	errs = append(errs, peeringPhase(status.Networking, statusPath.Child("networking"))...)
	errs = append(errs, peeringPhase(status.Authentication, statusPath.Child("authentication"))...)
	errs = append(errs, optional(status.PeerNamespace, statusPath.Child("peerNamespace"), dnsLabel)...)
	errs = append(errs, optional(status.TenantNamespace, statusPath.Child("tenantNamespace"), dnsLabel)...)
	errs = append(errs, optional(status.RemoteTenantNamespace, statusPath.Child("remoteTenantNamespace"), dnsLabel)...)
	errs = append(errs, notNegative(status.VirtualNodes, statusPath.Child("virtualNodes"))...)
	errs = append(errs, notNegative(status.LatencyMicroseconds, statusPath.Child("latencyMicroseconds"))...)
	errs = append(errs, ownGateway(status.Gateway)...)
	errs = append(errs, effectivePolicies(status.Policies, statusPath.Child("policies"))...)
	return append(errs, conditions(status.Conditions, statusPath.Child("conditions"))...)
}

func foreignClusterSpec(spec *federation.ForeignClusterSpec) field.ErrorList {
	errs := optional(spec.ClusterID, specPath.Child("clusterID"), clusterID)
	errs = append(errs, peeringIntent(spec.Outgoing, specPath.Child("outgoing"))...)
	errs = append(errs, peeringIntent(spec.Incoming, specPath.Child("incoming"))...)
	if spec.Outgoing == federation.PeeringEnabled && spec.Server == "" {
		errs = append(errs, field.Required(specPath.Child("server"), "must be set if outgoing is Enabled"))
	}
	errs = append(errs, optional(spec.Server, specPath.Child("server"), serverURL)...)
	errs = append(errs, caBundle(spec.CABundle, specPath.Child("caBundle"))...)
	errs = append(errs, optional(spec.ProxyURL, specPath.Child("proxyURL"), proxyURL)...)
	errs = append(errs, peeringAnswer(&spec.OutgoingPolicy, specPath.Child("outgoingPolicy"))...)
	errs = append(errs, peeringAnswer(&spec.IncomingPolicy.PeeringAnswer, specPath.Child("incomingPolicy"))...)
	errs = append(errs, incomingPolicy(&spec.IncomingPolicy, specPath.Child("incomingPolicy"))...)
	errs = append(errs, orphanTTL(spec.IncomingPolicy.OrphanTTL, specPath.Child("incomingPolicy", "orphanTTL"))...)
	errs = append(errs, optional(spec.InvitationSecretName, specPath.Child("invitationSecretName"), subdomain)...)
	errs = append(errs, resources(spec.Resources, specPath.Child("resources"))...)
	errs = append(errs, inBand(spec)...)
	errs = append(errs, peeringTrust(spec.Trust, specPath.Child("trust"))...)
	errs = append(errs, oneOf(spec.Networking, specPath.Child("networking"), "", federation.NetworkingNone,
		federation.NetworkingFlat, federation.NetworkingTunnel)...)
	errs = append(errs, reach(spec.Reach)...)
	errs = append(errs, KeepCIDRs(spec.KeepCIDRs, specPath.Child("keepCIDRs"))...)
	errs = append(errs, apiAccess(spec.APIAccess, specPath)...)
	return append(errs, seconds(spec.DisconnectTimeoutSeconds, 0, MaxDisconnectSeconds,
		specPath.Child("disconnectTimeoutSeconds"))...)
}

// knownResources validates the names of those resources in spec.resources and
// spec.incomingPolicy.limits that old does not have.
func knownResources(spec, old *federation.ForeignClusterSpec) field.ErrorList {
	errs := newResources(spec.Resources, old.Resources, podResources, specPath.Child("resources"))
	return append(errs, newResources(spec.IncomingPolicy.Limits, old.IncomingPolicy.Limits, quotaResources,
		specPath.Child("incomingPolicy", "limits"))...)
}

// ValidatePeering validates the body of a PUT or PATCH request to the verb peer.
func ValidatePeering(peering *federation.Peering) field.ErrorList {
	spec := &peering.Spec
	errs := foreignClusterSpec(&federation.ForeignClusterSpec{
		ClusterID:                spec.ClusterID,
		Outgoing:                 spec.Outgoing,
		Incoming:                 federation.PeeringDisabled,
		Server:                   spec.Server,
		CABundle:                 spec.CABundle,
		ProxyURL:                 spec.ProxyURL,
		Resources:                spec.Resources,
		DisconnectTimeoutSeconds: spec.DisconnectTimeoutSeconds,
		Mode:                     spec.Mode,
		Gateway:                  spec.Gateway,
	})
	errs = append(errs, oneOf(spec.Incoming, specPath.Child("incoming"), "",
		federation.PeeringEnabled, federation.PeeringDisabled)...)
	return append(errs, token(spec.Token, specPath.Child("token"))...)
}

// ValidateNewPeering validates the body of a POST request to the verb peer of the foreign cluster
// with the given name.
func ValidateNewPeering(peering *federation.Peering, name string) field.ErrorList {
	errs := ValidatePeering(peering)
	errs = append(errs, clusterName(name, metadataPath.Child("name"))...)
	switch incoming := peering.Spec.Incoming == federation.PeeringEnabled; {
	case incoming && peering.Spec.Mode != federation.PeeringInBand:
		errs = append(errs, field.Forbidden(specPath.Child("incoming"),
			"may only be set with mode InBand: with mode OutOfBand it is enabled when the peer uses an invitation"))
	case incoming && peering.Spec.Outgoing != federation.PeeringDisabled:
		errs = append(errs, field.Forbidden(specPath.Child("incoming"),
			"may only be set with outgoing Disabled: an invitation of the peer enables only the outgoing peering"))
	case incoming && peering.Spec.Token != "":
		errs = append(errs, field.Forbidden(specPath.Child("token"), "may only be set with outgoing Enabled"))
	case incoming:
	case peering.Spec.Outgoing == federation.PeeringDisabled:
		errs = append(errs, field.Invalid(specPath.Child("outgoing"), peering.Spec.Outgoing,
			"must be Enabled to peer; DELETE this subresource to end the peering"))
	}
	return errs
}

// inBand validates the mode, and that mode InBand has a gateway and a cluster ID, and no proxy.
func inBand(spec *federation.ForeignClusterSpec) field.ErrorList {
	errs := oneOf(spec.Mode, specPath.Child("mode"), "", federation.PeeringOutOfBand, federation.PeeringInBand)
	if spec.Gateway != nil {
		errs = append(errs, peeringGateway(spec.Gateway, specPath.Child("gateway"))...)
	}
	if spec.Mode != federation.PeeringInBand {
		return errs
	}
	if spec.Gateway == nil {
		errs = append(errs, field.Required(specPath.Child("gateway"),
			"must be set with mode InBand, to status.gateway of a ForeignCluster on the peer"))
	}
	if spec.ClusterID == "" {
		errs = append(errs, field.Required(specPath.Child("clusterID"),
			"must be set with mode InBand, to the UID of the namespace kube-system of the peer"))
	}
	if spec.ProxyURL != "" {
		errs = append(errs, field.Forbidden(specPath.Child("proxyURL"),
			"must be empty with mode InBand, which uses the tunnel"))
	}
	return errs
}

// peeringGateway validates the public key and the endpoints of a gateway.
func peeringGateway(gateway *federation.PeeringGateway, path *field.Path) field.ErrorList {
	errs := publicKey(gateway.PublicKey, path.Child("publicKey"))
	return append(errs, uniqueNames(gateway.Endpoints, MaxTunnelEndpoints, path.Child("endpoints"), hostPort)...)
}

// ownGateway validates the gateway of the local cluster in a status. Nil is valid.
func ownGateway(gateway *federation.PeeringGateway) field.ErrorList {
	if gateway == nil {
		return nil
	}
	return peeringGateway(gateway, statusPath.Child("gateway"))
}

func peeringIntent(intent federation.PeeringIntent, path *field.Path) field.ErrorList {
	return oneOf(intent, path, federation.PeeringEnabled, federation.PeeringDisabled)
}

// MinObjectBytes is the minimum of the maximum size of a consumer's objects. The metadata of a reflected object have
// about 1 KiB.
const MinObjectBytes = 4096

// incomingPolicy validates spec.incomingPolicy.
func incomingPolicy(incoming *federation.IncomingPolicy, path *field.Path) field.ErrorList {
	errs := limits(incoming.Limits, path.Child("limits"))
	errs = append(errs, externalVolumes(&incoming.ExternalVolumes, path.Child("externalVolumes"))...)
	errs = append(errs, labels(incoming.NodeSelector, path.Child("nodeSelector"))...)
	errs = append(errs, oneOf(incoming.Shape, path.Child("shape"), "",
		federation.OfferAggregate, federation.OfferPerNode)...)
	errs = append(errs, offeredLabels(incoming.Labels, path.Child("labels"))...)
	errs = append(errs, uniqueNames(incoming.StorageClasses, maxClasses, path.Child("storageClasses"), subdomain)...)
	errs = append(errs, uniqueNames(incoming.IngressClasses, maxClasses, path.Child("ingressClasses"), subdomain)...)
	errs = append(errs, uniqueNames(incoming.LoadBalancerClasses, maxClasses,
		path.Child("loadBalancerClasses"), qualifiedName)...)
	if share := incoming.SharePercent; share != nil && (*share < 1 || *share > 100) {
		errs = append(errs, field.Invalid(path.Child("sharePercent"), *share, "must be 1 to 100"))
	}
	errs = append(errs, RemoteNamespaces(incoming.RemoteNamespaces, path.Child("remoteNamespaces"))...)
	if most := incoming.MaxRemoteNamespaces; most != nil && *most < 1 {
		errs = append(errs, field.Invalid(path.Child("maxRemoteNamespaces"), *most, "must be at least 1"))
	}
	if most := incoming.MaxObjectBytes; most != nil && *most < MinObjectBytes {
		errs = append(errs, field.Invalid(path.Child("maxObjectBytes"), *most, "must be at least 4096"))
	}
	errs = append(errs, oneOf(incoming.Network, path.Child("network"), "", federation.NetworkIsolated,
		federation.NetworkOpen)...)
	errs = append(errs, oneOf(incoming.RefusedPods, path.Child("refusedPods"), "", federation.RefusedPodsKeep,
		federation.RefusedPodsEvict)...)
	errs = append(errs, Objects(incoming.Objects, path.Child("objects"))...)
	errs = append(errs, ExternalNames(incoming.ExternalNames, path.Child("externalNames"))...)
	return append(errs, podPolicy(&incoming.Pods, path.Child("pods"))...)
}

// limits validates spec.incomingPolicy.limits, which has resources of pods and of claims.
func limits(list corev1.ResourceList, path *field.Path) field.ErrorList {
	errs := resources(list, path)
	if len(list) > maxResources {
		return errs
	}
	for _, name := range slices.Sorted(maps.Keys(list)) {
		if class, ofClass := v1alpha1.ClassOfStorage(name); ofClass {
			errs = append(errs, subdomain(class, path.Key(truncate(string(name))))...)
		}
	}
	return errs
}

func peeringAnswer(answer *federation.PeeringAnswer, path *field.Path) field.ErrorList {
	errs := oneOf(answer.Decision, path.Child("decision"), "",
		federation.PeeringAccept, federation.PeeringRefuse, federation.PeeringManual)
	if utf8.RuneCountInString(answer.Reason) > maxAnswer {
		errs = append(errs, field.TooLong(path.Child("reason"), "", maxAnswer))
	}
	if answer.Reason != "" && answer.Decision != federation.PeeringAccept && answer.Decision != federation.PeeringRefuse {
		errs = append(errs, field.Forbidden(path.Child("reason"), "may only be set with decision Accept or Refuse"))
	}
	if strings.ContainsFunc(answer.Reason, func(r rune) bool { return !unicode.IsPrint(r) }) {
		errs = append(errs, field.Forbidden(path.Child("reason"), "must be one line of printable text"))
	}
	return errs
}

func orphanTTL(ttl *metav1.Duration, path *field.Path) field.ErrorList {
	if ttl == nil || ttl.Duration == 0 || ttl.Duration >= v1alpha1.MinOrphanTTL {
		return nil
	}
	return field.ErrorList{field.Invalid(path, ttl.Duration.String(),
		"must be 0s, which means no limit, or at least "+v1alpha1.MinOrphanTTL.String())}
}

func peeringPhase(phase federation.PeeringPhase, path *field.Path) field.ErrorList {
	return oneOf(phase, path, "", federation.PeeringNone, federation.PeeringPending, federation.PeeringEstablished,
		federation.PeeringDisconnecting, federation.PeeringDenied, federation.PeeringError)
}

// token validates the token of an invitation. Errors do not contain the token.
func token(token string, path *field.Path) field.ErrorList {
	if len(token) > maxToken {
		return field.ErrorList{field.TooLong(path, "", maxToken)}
	}
	for _, char := range []byte(token) {
		if char <= ' ' || char > '~' {
			return field.ErrorList{field.Forbidden(path,
				"must be the token of the invitation, without spaces or line breaks")}
		}
	}
	return nil
}
