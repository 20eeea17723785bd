// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterinfo

import (
	"context"
	"encoding/base64"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/compatibility"
	"liqo.io/federation/controllers/kit"
)

// publicKeySize is the length of a Curve25519 public key in bytes.
const publicKeySize = 32

// Reconcile creates ClusterInfo local if it does not exist, and writes its status.
func (r *Reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (ctrl.Result, error) {
	info := &v1alpha1.ClusterInfo{}
	err := r.Client.Get(ctx, request.NamespacedName, info)
	if apierrors.IsNotFound(err) {
		created := &v1alpha1.ClusterInfo{ObjectMeta: metav1.ObjectMeta{
			Name: v1alpha1.ClusterInfoName, Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy},
		}}
		// A ClusterInfo that exists but is not cached yet triggers another reconcile once it is cached.
		if err := client.IgnoreAlreadyExists(r.Client.Create(ctx, created)); err != nil {
			return ctrl.Result{}, fmt.Errorf("creating ClusterInfo %s: %w", v1alpha1.ClusterInfoName, err)
		}
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	wanted := info.DeepCopy()
	if wanted.Status, err = r.status(ctx, info); err != nil {
		return ctrl.Result{}, err
	}
	changed, err := kit.Commit(ctx, r.Client, info, wanted)
	if changed && err == nil {
		r.recordEvents(info, wanted)
	}
	return kit.Result(rereadInterval, err)
}

// status returns the desired status of the ClusterInfo.
func (r *Reconciler) status(ctx context.Context, info *v1alpha1.ClusterInfo) (v1alpha1.ClusterInfoStatus, error) {
	status := v1alpha1.ClusterInfoStatus{
		ClusterID: r.Cluster.ID, ClusterName: r.Cluster.Name, Labels: r.Cluster.Labels,
		Version: compatibility.Version, Features: compatibility.Features(), Conditions: info.DeepCopy().Status.Conditions,
	}
	var err error
	if status.Gateway, err = r.gateway(ctx); err != nil {
		return status, err
	}
	in := input{values: r.Values, previous: info.Status.Ranges}
	var tunnels v1alpha1.TunnelEndpointList
	if err := r.installation.List(ctx, &tunnels, client.UnsafeDisableDeepCopy); err != nil {
		return status, err
	}
	in.tunnels = kit.Pointers(tunnels.Items)
	if in.detected, err = r.detect(ctx, in.previous); err != nil {
		return status, err
	}
	ranges, conditions := choose(in)
	status.Ranges = ranges
	for _, condition := range conditions {
		condition.LastTransitionTime = metav1.NewTime(r.Clock.Now())
		meta.SetStatusCondition(&status.Conditions, condition)
	}
	return status, nil
}

// gateway returns the public key and endpoints of the local gateway; nil while the gateway has not published a valid
// public key.
func (r *Reconciler) gateway(ctx context.Context) (*v1alpha1.PeeringGateway, error) {
	var published corev1.ConfigMap
	key := client.ObjectKey{Namespace: r.Cluster.Namespace, Name: v1alpha1.WireGuardConfigMap}
	if err := r.installation.Get(ctx, key, &published); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("reading the public key of the gateway: %w", err)
	}
	gateway := &v1alpha1.PeeringGateway{
		PublicKey: published.Data[v1alpha1.WireGuardPublicKey], Endpoints: r.Cluster.Endpoints,
	}
	if decoded, err := base64.StdEncoding.Strict().DecodeString(gateway.PublicKey); err != nil ||
		len(decoded) != publicKeySize {
		return nil, nil
	}
	if r.Gateway == nil || len(gateway.Endpoints) > 0 {
		return gateway, nil
	}
	var err error
	gateway.Endpoints, err = r.Gateway.Endpoints(ctx)
	return gateway, err
}

// recordEvents emits a Warning for each condition that is False and has another reason than before.
func (r *Reconciler) recordEvents(old, current *v1alpha1.ClusterInfo) {
	for _, after := range current.Status.Conditions {
		before := meta.FindStatusCondition(old.Status.Conditions, after.Type)
		if after.Status == metav1.ConditionFalse && (before == nil || before.Reason != after.Reason) {
			r.Events.Event(current, corev1.EventTypeWarning, after.Reason, after.Message)
		}
	}
}
