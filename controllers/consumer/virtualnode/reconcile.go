// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualnode

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/apiserver/placement"
	"liqo.io/federation/apiserver/podspec"
	"liqo.io/federation/controllers/kit"
)

// podsRetry is the time between two reads of the pods of a node while they are not all cached. If the node has no
// pods, no event reports when its watch is synced.
const podsRetry = time.Second

// Reconcile deploys or removes the virtual kubelet of one virtual node.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (ctrl.Result, error) {
	virtual := &v1alpha1.VirtualNode{}
	err := r.Client.Get(ctx, request.NamespacedName, virtual)
	if apierrors.IsNotFound(err) || err == nil && !naming.IsPeerNamespace(virtual.Namespace) {
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	if virtual.DeletionTimestamp != nil {
		return kit.Result(r.tearDown(ctx, virtual))
	}
	return kit.Result(r.keep(ctx, virtual))
}

// keep deploys the virtual kubelet of a VirtualNode that is not being deleted, and writes the status. It returns the
// time after which to reconcile again.
func (r *Reconciler) keep(ctx context.Context, virtual *v1alpha1.VirtualNode) (time.Duration, error) {
	desired := virtual.DeepCopy()
	if controllerutil.AddFinalizer(desired, v1alpha1.Finalizer) {
		_, err := kit.Commit(ctx, r.Client, virtual, desired)
		return 0, err
	}
	fc, err := r.foreignCluster(ctx, virtual)
	if err != nil {
		return 0, err
	}
	r.observeAPIAccess(desired, fc)
	if virtual.Status.APIAccess == "" && desired.Status.APIAccess != "" {
		// The virtual kubelet would create pods without access before it observes the first value.
		_, err := kit.Commit(ctx, r.Client, virtual, desired)
		return kit.CacheLag, err
	}
	node, err := r.node(ctx, virtual)
	if err != nil {
		return 0, err
	}
	if err := r.cordon(ctx, fc, virtual, node); err != nil {
		return 0, err
	}
	deployment, problem, err := r.deploy(ctx, virtual, fc, node)
	if err != nil {
		return 0, err
	}
	desired.Status.ObservedGeneration = virtual.Generation
	meta.SetStatusCondition(&desired.Status.Conditions, kubeletCondition(virtual, deployment, problem))
	retryAfter, err := r.observeNode(ctx, desired, node)
	if err != nil {
		return 0, err
	}
	offer, err := r.offer(ctx, virtual)
	if err != nil {
		return 0, err
	}
	if err := r.observeNetwork(ctx, desired, fc); err != nil {
		return 0, err
	}
	observeClasses(desired, offer)
	// If discovery fails, the rest of the status is written nevertheless, and the error causes a retry.
	kinds, kindsErr := r.observeKinds(ctx, desired, offer)
	if kindsErr != nil {
		desired.Status.ReflectedKinds = virtual.Status.ReflectedKinds
	} else if retryAfter == 0 {
		retryAfter = kinds
	}
	_, err = kit.Commit(ctx, r.Client, virtual, desired)
	return retryAfter, errors.Join(kindsErr, err)
}

// foreignCluster returns the ForeignCluster of a virtual node, or nil if there is none.
func (r *Reconciler) foreignCluster(
	ctx context.Context, virtual *v1alpha1.VirtualNode,
) (*v1alpha1.ForeignCluster, error) {
	fc := &v1alpha1.ForeignCluster{}
	err := r.Client.Get(ctx, client.ObjectKey{Name: naming.ForeignClusterOf(virtual.Namespace)}, fc)
	if err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return fc, nil
}

// node returns the Node with the name of a virtual node, or nil if there is none.
func (r *Reconciler) node(ctx context.Context, virtual *v1alpha1.VirtualNode) (*corev1.Node, error) {
	node := &corev1.Node{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: virtual.Spec.NodeName}, node); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return node, nil
}

// offer returns the resource offer of a virtual node; an empty object if it does not exist.
func (r *Reconciler) offer(ctx context.Context, virtual *v1alpha1.VirtualNode) (*v1alpha1.ResourceOffer, error) {
	offer := &v1alpha1.ResourceOffer{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: virtual.Namespace, Name: virtual.Spec.OfferName}, offer)
	return offer, client.IgnoreNotFound(err)
}

// belongs reports whether a Node is the Node of a virtual node, instead of a local node with the same name. node may
// be nil.
func belongs(node *corev1.Node, virtual *v1alpha1.VirtualNode) bool {
	return node != nil && placement.NodeBelongs(node, virtual.Spec.ClusterID)
}

// cordon cordons the Node while the ForeignCluster is cordoned, and uncordons it afterwards, unless an administrator
// cordoned it.
func (r *Reconciler) cordon(
	ctx context.Context, fc *v1alpha1.ForeignCluster, virtual *v1alpha1.VirtualNode, node *corev1.Node,
) error {
	if fc == nil || !belongs(node, virtual) {
		return nil
	}
	// A Node that was uncordoned manually still has the annotation. The annotation is removed, because otherwise the end
	// of the cordon in the ForeignCluster would also end a later manual cordon.
	_, held := node.Annotations[v1alpha1.AnnotationCordoned]
	if fc.Spec.Cordoned && node.Spec.Unschedulable || !fc.Spec.Cordoned && !held {
		return nil
	}
	desired := node.DeepCopy()
	desired.Spec.Unschedulable = fc.Spec.Cordoned
	if fc.Spec.Cordoned {
		metav1.SetMetaDataAnnotation(&desired.ObjectMeta, v1alpha1.AnnotationCordoned, "true")
	} else {
		delete(desired.Annotations, v1alpha1.AnnotationCordoned)
	}
	if _, err := kit.Commit(ctx, r.Client, node, desired); err != nil {
		return fmt.Errorf("cordoning or uncordoning node %s: %w", node.Name, err)
	}
	return nil
}

// observeNode sets the condition Ready and the number of pods. It returns the time after which to observe the pods
// again.
func (r *Reconciler) observeNode(
	ctx context.Context, virtual *v1alpha1.VirtualNode, node *corev1.Node,
) (time.Duration, error) {
	if !belongs(node, virtual) {
		node = nil
	}
	meta.SetStatusCondition(&virtual.Status.Conditions, readyCondition(virtual, node))
	if node == nil {
		return 0, nil
	}
	pods, complete, err := r.Pods.List(ctx, virtual.Spec.NodeName)
	if err != nil {
		return 0, fmt.Errorf("watching the pods of node %s: %w", virtual.Spec.NodeName, err)
	}
	if !complete {
		return podsRetry, nil
	}
	virtual.Status.Pods = 0
	for _, pod := range pods {
		if !podspec.Finished(pod) {
			virtual.Status.Pods++
		}
	}
	return 0, nil
}
