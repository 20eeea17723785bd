// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/link/clusterinfo"
	"liqo.io/federation/controllers/link/gateway"
)

// InvitationName is the name of the controller InvitationReconciler in --controllers, logs and metrics.
const InvitationName = "invitation-gateway"

// InvitationReconciler writes the public key and the endpoints of the local gateway to the status of each
// PeeringToken with spec.mode InBand. A consumer needs them to create the tunnel before it peers.
type InvitationReconciler struct {
	*Local
}

// SetupWithManager adds the controller to a manager. installation caches the installation
// namespace.
func (r *InvitationReconciler) SetupWithManager(manager ctrl.Manager, installation cache.Cache) error {
	r.setUp(installation)
	all := handler.EnqueueRequestsFromMapFunc(kit.RequestsOfAll(r.Client, &v1alpha1.PeeringTokenList{}))
	controller := ctrl.NewControllerManagedBy(manager).Named(InvitationName).
		For(&v1alpha1.PeeringToken{}).
		Watches(&v1alpha1.ClusterInfo{}, all, builder.WithPredicates(clusterinfo.RangesChanged())).
		WatchesRawSource(source.Kind[client.Object](installation, &corev1.ConfigMap{}, all)).
		WithOptions(kit.Options(1))
	if r.Finder != nil {
		for _, source := range gateway.Sources(manager, installation, all) {
			controller = controller.WatchesRawSource(source)
		}
	}
	return controller.Complete(r)
}

// Reconcile writes the gateway to the status of a PeeringToken, unless the token was used.
func (r *InvitationReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	token := &v1alpha1.PeeringToken{}
	if err := r.Client.Get(ctx, request.NamespacedName, token); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if token.DeletionTimestamp != nil || token.Spec.Mode != v1alpha1.PeeringInBand || token.Status.Used {
		return ctrl.Result{}, nil
	}
	own, after, err := r.gateway(ctx, &facts{}, nil, token.Status.Gateway)
	if err != nil || own == nil {
		return kit.CreateResult(0, err)
	}
	wanted := token.DeepCopy()
	wanted.Status.Gateway = own
	_, err = kit.Commit(ctx, r.Client, token, wanted)
	return kit.CreateResult(after, err)
}
