// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package foreigncluster

import (
	"bytes"
	"context"
	"fmt"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/apis/federation/validation"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/registry/federation/store"
	"liqo.io/federation/registry/federation/subresource"
)

var (
	peerResource = federation.Resource("foreignclusters/peer")
	peeringKind  = federation.Kind("Peering")
)

// peeringOf returns the Peering of a ForeignCluster, the object of the subresource peer. It never has a token.
func peeringOf(cluster *federation.ForeignCluster) *federation.Peering {
	spec := cluster.Spec.DeepCopy()
	status := cluster.Status.DeepCopy()
	return &federation.Peering{
		ObjectMeta: subresource.Metadata(cluster),
		Spec: federation.PeeringSpec{
			Outgoing:                 spec.Outgoing,
			ClusterID:                spec.ClusterID,
			Server:                   spec.Server,
			CABundle:                 spec.CABundle,
			ProxyURL:                 spec.ProxyURL,
			Resources:                spec.Resources,
			DisconnectTimeoutSeconds: spec.DisconnectTimeoutSeconds,
			Incoming:                 spec.Incoming,
			Mode:                     spec.Mode,
			Gateway:                  spec.Gateway,
		},
		Status: federation.PeeringStatus{
			OutgoingPeering: status.OutgoingPeering,
			IncomingPeering: status.IncomingPeering,
			Authentication:  status.Authentication,
			Conditions:      status.Conditions,
			Gateway:         status.Gateway,
		},
	}
}

// replace sets the spec of a ForeignCluster from the Peering of a PUT or PATCH. If the Peering has no incoming, it
// keeps spec.incoming. If the Peering has no mode, it keeps spec.mode and spec.gateway.
func replace(cluster *federation.ForeignCluster, peering *federation.Peering) {
	spec := peering.Spec.DeepCopy()
	cluster.Spec.Outgoing = spec.Outgoing
	cluster.Spec.ClusterID = spec.ClusterID
	cluster.Spec.Server = spec.Server
	cluster.Spec.CABundle = spec.CABundle
	cluster.Spec.ProxyURL = spec.ProxyURL
	cluster.Spec.Resources = spec.Resources
	cluster.Spec.DisconnectTimeoutSeconds = spec.DisconnectTimeoutSeconds
	// Clients of older versions send neither incoming nor mode.
	if spec.Incoming != "" {
		cluster.Spec.Incoming = spec.Incoming
	}
	if spec.Mode != "" {
		cluster.Spec.Mode, cluster.Spec.Gateway = spec.Mode, spec.Gateway
	}
	if spec.Token != "" {
		cluster.Spec.InvitationSecretName = naming.InvitationSecret(cluster.Name)
	}
}

// apply sets the spec of a ForeignCluster from an accepted invitation, and keeps fields that the invitation does not
// set.
func apply(cluster *federation.ForeignCluster, peering *federation.Peering) {
	spec := peering.Spec.DeepCopy()
	if spec.Incoming == federation.PeeringEnabled {
		cluster.Spec.Incoming = spec.Incoming
	}
	if spec.Mode != "" {
		cluster.Spec.Mode, cluster.Spec.Gateway = spec.Mode, spec.Gateway
	}
	if spec.Outgoing == federation.PeeringEnabled {
		cluster.Spec.Outgoing = spec.Outgoing
		cluster.Spec.Server = spec.Server
		cluster.Spec.CABundle = spec.CABundle
	}
	if spec.ProxyURL != "" {
		cluster.Spec.ProxyURL = spec.ProxyURL
	}
	if spec.ClusterID != "" {
		cluster.Spec.ClusterID = spec.ClusterID
	}
	if len(spec.Resources) > 0 {
		cluster.Spec.Resources = spec.Resources
	}
	if spec.DisconnectTimeoutSeconds != nil {
		cluster.Spec.DisconnectTimeoutSeconds = spec.DisconnectTimeoutSeconds
	}
	if spec.Token != "" {
		cluster.Spec.InvitationSecretName = naming.InvitationSecret(cluster.Name)
	}
}

// differences returns the fields of an invitation that contradict the ForeignCluster. Fields other than clusterID, mode
// and gateway are compared only if the ForeignCluster has an outgoing peering and the invitation requests one.
func differences(cluster *federation.ForeignCluster, peering *federation.Peering) []subresource.Difference {
	var found []subresource.Difference
	differ := func(field, format string, args ...any) {
		found = append(found, subresource.Difference{Field: field, Message: fmt.Sprintf(format, args...)})
	}
	current, requested := &cluster.Spec, &peering.Spec
	if current.ClusterID != "" && requested.ClusterID != "" && current.ClusterID != requested.ClusterID {
		found = append(found, subresource.Differs("spec.clusterID", current.ClusterID, requested.ClusterID))
	}
	if current.Mode == federation.PeeringInBand && requested.Mode != "" &&
		(current.Mode != requested.Mode || !apiequality.Semantic.DeepEqual(current.Gateway, requested.Gateway)) {
		differ("spec.gateway", "is another gateway")
	}
	// Both directions share one mode: a request for an incoming peering must not change the mode of the outgoing
	// peering.
	if current.Outgoing == federation.PeeringEnabled && current.Mode != federation.PeeringInBand &&
		requested.Mode == federation.PeeringInBand {
		found = append(found, subresource.Differs("spec.mode", federation.PeeringOutOfBand, requested.Mode))
	}
	if current.Outgoing != federation.PeeringEnabled || requested.Outgoing != federation.PeeringEnabled {
		return found
	}
	if current.Server != requested.Server {
		found = append(found, subresource.Differs("spec.server", current.Server, requested.Server))
	}
	if !bytes.Equal(current.CABundle, requested.CABundle) {
		differ("spec.caBundle", "contains other certificates")
	}
	if requested.ProxyURL != "" && current.ProxyURL != requested.ProxyURL {
		found = append(found, subresource.Differs("spec.proxyURL", current.ProxyURL, requested.ProxyURL))
	}
	if len(requested.Resources) > 0 && !apiequality.Semantic.DeepEqual(current.Resources, requested.Resources) {
		differ("spec.resources", "requests other amounts")
	}
	if timeout := requested.DisconnectTimeoutSeconds; timeout != nil &&
		!apiequality.Semantic.DeepEqual(current.DisconnectTimeoutSeconds, timeout) {
		differ("spec.disconnectTimeoutSeconds", "is not %d", *timeout)
	}
	return found
}

// peeringUpdate translates the update of a Peering into an update of its ForeignCluster.
type peeringUpdate struct {
	rest.UpdatedObjectInfo
	// manager is the field manager of the request.
	manager string
}

// UpdatedObject returns a copy of old, a ForeignCluster, with the requested changes of its Peering.
func (u peeringUpdate) UpdatedObject(ctx context.Context, old runtime.Object) (runtime.Object, error) {
	cluster := old.DeepCopyObject().(*federation.ForeignCluster)
	peering, err := u.peering(ctx, cluster)
	if err != nil {
		return nil, err
	}
	replace(cluster, peering)
	return cluster, checkManagers(u.manager, old.(*federation.ForeignCluster), cluster)
}

// checkManagers fails with Conflict if the request changes a field that another field manager applied.
func checkManagers(manager string, current, requested *federation.ForeignCluster) error {
	before, after := &v1alpha1.ForeignCluster{}, &v1alpha1.ForeignCluster{}
	if err := v1alpha1.Convert_federation_ForeignCluster_To_v1alpha1_ForeignCluster(current, before, nil); err != nil {
		return apierrors.NewInternalError(err)
	}
	if err := v1alpha1.Convert_federation_ForeignCluster_To_v1alpha1_ForeignCluster(requested, after, nil); err != nil {
		return apierrors.NewInternalError(err)
	}
	return subresource.CheckManagers(peerResource, manager, before, after)
}

// peering returns the Peering of a ForeignCluster after the requested changes. It fails with Conflict if a precondition
// of the request is not met, and with Invalid if the result is invalid.
func (u peeringUpdate) peering(ctx context.Context, cluster *federation.ForeignCluster) (*federation.Peering, error) {
	obj, err := u.UpdatedObjectInfo.UpdatedObject(ctx, peeringOf(cluster))
	if err != nil {
		return nil, err
	}
	peering, ok := obj.(*federation.Peering)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("expected a Peering, got a %T", obj))
	}
	if err := subresource.CheckName(cluster.Name, peering); err != nil {
		return nil, err
	}
	if err := subresource.CheckPreconditions(peerResource, cluster.Name, peering, cluster); err != nil {
		return nil, err
	}
	errs := validation.ValidatePeering(peering)
	if incoming := peering.Spec.Incoming; incoming != "" && incoming != cluster.Spec.Incoming &&
		(incoming != federation.PeeringEnabled || peering.Spec.Mode != federation.PeeringInBand) {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "incoming"),
			"can only be set to Enabled, and only with spec.mode InBand: for any other value, update the ForeignCluster"))
	}
	if len(errs) > 0 {
		return nil, apierrors.NewInvalid(peeringKind, cluster.Name, errs)
	}
	return peering, nil
}

// peeringTable has the columns that kubectl prints for a Peering.
var peeringTable = store.Table[*federation.Peering]{
	{Name: "Outgoing", Description: "phase of the outgoing peering, in which the peer is the provider",
		Cell: func(p *federation.Peering) any {
			return phase(p.Status.OutgoingPeering, p.Spec.Outgoing)
		}},
	{Name: "Incoming", Description: "phase of the incoming peering, in which the peer is the consumer",
		Cell: func(p *federation.Peering) any {
			return phase(p.Status.IncomingPeering, federation.PeeringDisabled)
		}},
	{Name: "Authentication", Description: "phase of the authentication between the clusters",
		Cell: func(p *federation.Peering) any {
			return phase(p.Status.Authentication, p.Spec.Outgoing)
		}},
	{Name: "Server", Description: "the URL of the peer's Kubernetes API", Wide: true,
		Cell: func(p *federation.Peering) any {
			return store.OrNone(p.Spec.Server)
		}},
}
