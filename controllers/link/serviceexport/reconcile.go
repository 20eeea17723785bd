// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package serviceexport

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	mcsv1alpha1 "sigs.k8s.io/mcs-api/pkg/apis/v1alpha1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/mcs"
	"liqo.io/federation/controllers/remote"
)

const (
	// nameRetry is the time after which to try again to create a ServiceImport if its name is in use, or the API
	// server refused it. The other ServiceImport is not cached, so its deletion causes no event.
	nameRetry = 30 * time.Second
	// reasonConflict of an event on an exported Service means that a ServiceImport with the name of the Service has
	// another owner. Delete or rename one of the two.
	reasonConflict = "ServiceImportConflict"
)

// errNameTaken is the error for a ServiceImport that this controller did not create.
var errNameTaken = errors.New("a ServiceImport with this name exists that was not created for the export")

// Reconcile ensures or deletes the ServiceImport of a Service, and writes the status of its ServiceExport.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (ctrl.Result, error) {
	s := r.session.Load()
	if s == nil {
		return ctrl.Result{}, nil
	}
	namespace, existing := &corev1.Namespace{}, &mcsv1alpha1.ServiceImport{}
	err := r.Client.Get(ctx, types.NamespacedName{Name: request.Namespace}, namespace)
	if apierrors.IsNotFound(err) || err == nil && !namespace.DeletionTimestamp.IsZero() {
		// All objects of the namespace are deleted with it.
		s.services.Forget(request.Namespace)
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	if err := s.cached.Get(ctx, request.NamespacedName, existing); err != nil {
		if !apierrors.IsNotFound(err) {
			return ctrl.Result{}, err
		}
		existing = nil
	}
	p := &pass{Reconciler: r, session: s, key: request.NamespacedName, namespace: namespace, existing: existing}
	return kit.Result(p.reconcile(ctx))
}

// pass is the state of one reconcile of a Service.
type pass struct {
	*Reconciler
	session   *session
	key       types.NamespacedName
	namespace *corev1.Namespace
	// existing is the ServiceImport that this controller created; nil if it does not exist.
	existing *mcsv1alpha1.ServiceImport
}

func (p *pass) reconcile(ctx context.Context) (time.Duration, error) {
	offloading, err := p.offloading(ctx)
	if err != nil {
		return 0, err
	}
	var again time.Duration
	switch {
	case p.namespace.Labels[v1alpha1.LabelRole] == v1alpha1.RoleRemoteNamespace:
		again, err = p.importReflected(ctx)
	case offloading != nil:
		again, err = p.export(ctx, offloading)
	default:
		err = p.withdraw(ctx)
	}
	if err == nil && again == 0 {
		err = p.tidy(ctx, offloading != nil)
	}
	return again, err
}

// offloading returns the NamespaceOffloading of the namespace; nil if the namespace is not offloaded.
func (p *pass) offloading(ctx context.Context) (*v1alpha1.NamespaceOffloading, error) {
	if p.namespace.Labels[v1alpha1.LabelRole] != "" {
		return nil, nil
	}
	offloading := &v1alpha1.NamespaceOffloading{}
	key := types.NamespacedName{Namespace: p.namespace.Name, Name: v1alpha1.NamespaceOffloadingName}
	err := p.Client.Get(ctx, key, offloading)
	if apierrors.IsNotFound(err) || err == nil && !offloading.DeletionTimestamp.IsZero() {
		return nil, nil
	}
	return offloading, err
}

// readExport returns the ServiceExport of the Service; nil if it does not exist.
func (p *pass) readExport(ctx context.Context) (*mcsv1alpha1.ServiceExport, error) {
	export := &mcsv1alpha1.ServiceExport{}
	err := p.session.cached.Get(ctx, p.key, export)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return export, err
}

// export ensures the ServiceImport of a Service in an offloaded namespace if the Service has a ServiceExport, and
// removes it otherwise. It returns the time after which to reconcile again, or zero.
func (p *pass) export(ctx context.Context, offloading *v1alpha1.NamespaceOffloading) (time.Duration, error) {
	export, err := p.readExport(ctx)
	if err != nil {
		return 0, err
	}
	if export == nil || !mcs.Exported(export) {
		return 0, p.removeImport(ctx)
	}
	watched, err := p.session.services.Of(p.session.during, p.key.Namespace)
	if watched == nil || err != nil {
		return 0, err
	}
	if wait, err := p.bind(ctx, p.key.Namespace); wait > 0 || err != nil {
		return wait, err
	}
	service, err := watched.Services.Get(p.key.Name)
	if apierrors.IsNotFound(err) {
		service, err = nil, nil
	}
	if err != nil {
		return 0, err
	}
	standing := exportable(service)
	if standing.valid != metav1.ConditionTrue {
		if err := p.removeImport(ctx); err != nil {
			return 0, err
		}
		return 0, p.report(ctx, export, standing)
	}
	reach, err := p.reachOfConsumer(ctx, offloading)
	if err != nil {
		return 0, err
	}
	owner := metav1.OwnerReference{
		APIVersion: apiVersion, Kind: mcsv1alpha1.ServiceExportKindName, Name: export.Name, UID: export.UID,
	}
	err = p.ensure(ctx, watched, importFor(service, owner), reach.clusters, reach)
	switch {
	case err == nil:
		return 0, p.report(ctx, export, standing)
	case errors.Is(err, errNameTaken):
		return nameRetry, p.report(ctx, export, nameTaken)
	case remote.Refused(err):
		return nameRetry, p.report(ctx, export, failed(remote.Describe(err)))
	}
	return 0, err
}

// importReflected ensures the ServiceImport of a reflected Service in a remote namespace if its consumer exports the
// Service, and removes it otherwise. It returns the time after which to reconcile again, or zero.
func (p *pass) importReflected(ctx context.Context) (time.Duration, error) {
	reflected := &corev1.Service{}
	err := p.session.cached.Get(ctx, p.key, reflected)
	if apierrors.IsNotFound(err) || err == nil && exportable(reflected).valid != metav1.ConditionTrue {
		p.reported.Delete(p.key)
		return 0, p.removeImport(ctx)
	}
	if err != nil {
		return 0, err
	}
	watched, err := p.session.services.Of(p.session.during, p.key.Namespace)
	if watched == nil || err != nil {
		return 0, err
	}
	reach, err := p.reachOfProvider(ctx, p.namespace.Labels[v1alpha1.LabelForeignCluster])
	if err != nil {
		return 0, err
	}
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Service", Name: reflected.Name, UID: reflected.UID}
	err = p.ensure(ctx, watched, importFor(reflected, owner), reach.clusters, reach)
	switch {
	case err == nil:
		p.reported.Delete(p.key)
	case errors.Is(err, errNameTaken):
		p.recordConflict(reflected)
		return nameRetry, nil
	}
	return 0, err
}

// withdraw deletes the ServiceImport of a Service in a namespace that is not offloaded. If the
// ServiceImport does not exist, it does not write the status of the ServiceExport either.
func (p *pass) withdraw(ctx context.Context) error {
	if p.existing == nil {
		return nil
	}
	export, err := p.readExport(ctx)
	if err != nil {
		return err
	}
	if export != nil {
		if err := p.report(ctx, export, notOffloaded); err != nil {
			return err
		}
	}
	return p.removeImport(ctx)
}

// tidy deletes the RoleBinding and ends the watches of a namespace that has neither imports nor exports.
// ServiceExports count only if the namespace is offloaded.
func (p *pass) tidy(ctx context.Context, offloaded bool) error {
	objects, err := p.session.in(ctx, p.key.Namespace)
	if err != nil {
		return err
	}
	for _, object := range objects {
		export, ok := object.(*mcsv1alpha1.ServiceExport)
		if !ok || offloaded && mcs.Exported(export) {
			return nil
		}
	}
	p.session.services.Forget(p.key.Namespace)
	return p.unbind(ctx, p.key.Namespace)
}

// recordConflict emits an event on a Service whose ServiceImport has another owner, once until the conflict
// ends.
func (p *pass) recordConflict(service *corev1.Service) {
	message := fmt.Sprintf("The consumer exports the Service, but %v. "+
		"Delete that ServiceImport: the import is retried within half a minute.", errNameTaken)
	if last, ok := p.reported.Swap(p.key, message); !ok || last != message {
		p.Events.Event(service, corev1.EventTypeWarning, reasonConflict, message)
	}
}

// report writes the conditions of a ServiceExport to its status.
func (p *pass) report(ctx context.Context, export *mcsv1alpha1.ServiceExport, standing standing) error {
	changed := export.DeepCopy()
	standing.report(&changed.Status, export.Generation)
	_, err := kit.Commit(ctx, p.Client, export, changed)
	return client.IgnoreNotFound(err)
}
