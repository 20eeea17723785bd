// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package serviceexport

import (
	"context"
	"fmt"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1alpha1 "sigs.k8s.io/mcs-api/pkg/apis/v1alpha1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/kit/watches"
)

// ensure creates or updates a ServiceImport, its EndpointSlices and its status, which lists clusters. It fails with
// errNameTaken if a ServiceImport with the name exists that was not created for the export.
func (p *pass) ensure(
	ctx context.Context,
	watched *watches.NamespaceServices,
	wanted *mcsv1alpha1.ServiceImport,
	clusters []string,
	locator locator,
) error {
	current, err := p.ensureImport(ctx, wanted)
	if err != nil {
		return err
	}
	present, err := p.ensureSlices(ctx, watched, current, locator)
	if err != nil {
		return err
	}
	changed := current.DeepCopy()
	updateStatus(changed, clusters, present)
	_, err = kit.Commit(ctx, p.Client, current, changed)
	return err
}

// ensureImport creates or updates the ServiceImport, and returns it. It fails with errNameTaken if a
// ServiceImport with the name exists that was not created for the export.
func (p *pass) ensureImport(
	ctx context.Context,
	wanted *mcsv1alpha1.ServiceImport,
) (*mcsv1alpha1.ServiceImport, error) {
	existing := p.existing
	if existing == nil {
		created := wanted.DeepCopy()
		err := p.Client.Create(ctx, created)
		if !apierrors.IsAlreadyExists(err) {
			return created, p.wrap(err, "creating ServiceImport")
		}
		// The ServiceImport is not in the cache yet, or has no label that the cache selects.
		existing = &mcsv1alpha1.ServiceImport{}
		if err := p.Live.Get(ctx, p.key, existing); err != nil {
			return nil, p.wrap(err, "reading ServiceImport")
		}
		if !isManaged(existing) {
			return nil, errNameTaken
		}
	}
	changed := existing.DeepCopy()
	if !updateImport(changed, wanted) {
		return existing, nil
	}
	return changed, p.wrap(p.Client.Update(ctx, changed), "updating ServiceImport")
}

// ensureSlices creates, updates and deletes the EndpointSlices of a ServiceImport, and reports whether it
// has any.
func (p *pass) ensureSlices(
	ctx context.Context, watched *watches.NamespaceServices, imported *mcsv1alpha1.ServiceImport, locator locator,
) (bool, error) {
	of, err := watched.Slices.List(labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: imported.Name}))
	if err != nil {
		return false, err
	}
	found, err := watched.Slices.List(labels.SelectorFromSet(labels.Set{mcsv1alpha1.LabelServiceName: imported.Name}))
	if err != nil {
		return false, err
	}
	existing := map[string]*discoveryv1.EndpointSlice{}
	for _, slice := range found {
		if isImported(slice, imported.Name) {
			existing[slice.Name] = slice
		}
	}
	wanted := slicesFor(imported, of, locator)
	for _, slice := range wanted {
		current := existing[slice.Name]
		delete(existing, slice.Name)
		if err := p.ensureSlice(ctx, current, slice); err != nil {
			return false, err
		}
	}
	for _, slice := range existing {
		if err := p.removeSlice(ctx, slice); err != nil {
			return false, err
		}
	}
	return len(wanted) > 0, nil
}

func (p *pass) ensureSlice(ctx context.Context, current, wanted *discoveryv1.EndpointSlice) error {
	switch {
	case current == nil:
		// An EndpointSlice that exists but is not cached yet enqueues the Service once it is cached.
		if err := p.Client.Create(ctx, wanted); err != nil && !apierrors.IsAlreadyExists(err) {
			return p.wrap(err, "creating an EndpointSlice of ServiceImport")
		}
		return nil
	case current.AddressType != wanted.AddressType:
		// The EndpointSlice is created again once its deletion is observed.
		return p.removeSlice(ctx, current)
	}
	changed := current.DeepCopy()
	if !kit.UpdateEndpointSlice(changed, wanted) {
		return nil
	}
	return p.wrap(p.Client.Update(ctx, changed), "updating an EndpointSlice of ServiceImport")
}

// removeImport deletes the EndpointSlices of the ServiceImport, and then the ServiceImport.
func (p *pass) removeImport(ctx context.Context) error {
	if p.existing == nil {
		return nil
	}
	var list discoveryv1.EndpointSliceList
	err := p.Live.List(ctx, &list, client.InNamespace(p.key.Namespace), client.MatchingLabels{
		mcsv1alpha1.LabelServiceName: p.key.Name, discoveryv1.LabelManagedBy: v1alpha1.ManagedBy,
	})
	if err != nil {
		return p.wrap(err, "listing the EndpointSlices of ServiceImport")
	}
	for i := range list.Items {
		if isImported(&list.Items[i], p.key.Name) {
			if err := p.removeSlice(ctx, &list.Items[i]); err != nil {
				return err
			}
		}
	}
	return kit.Delete(ctx, p.Client, p.existing)
}

func (p *pass) removeSlice(ctx context.Context, slice *discoveryv1.EndpointSlice) error {
	if !slice.DeletionTimestamp.IsZero() {
		return nil
	}
	return kit.Delete(ctx, p.Client, slice)
}

// wrap returns err with the prefix doing and the name of the ServiceImport; nil if err is nil.
func (p *pass) wrap(err error, doing string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w", doing, p.key, err)
}
