// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/rules/quota"
	"liqo.io/federation/registry/federation/grants"
	"liqo.io/federation/registry/federation/ledger"
	"liqo.io/federation/registry/federation/store"
)

// TwinOf tells whether a namespace is a twin, and of which consumer's, the
// name of its ForeignCluster. Elsewhere nothing runs, so nothing counts.
type TwinOf func(ctx context.Context, namespace string) (consumer string, twin bool, err error)

// REST serves shadow pods. Room for each is reserved when everything else has
// agreed to it, and before it is stored.
type REST struct {
	*store.REST
	status *store.StatusREST
	grants *grants.Grants
	twinOf TwinOf
}

// Attribute has a shadow pod say whose it is, if its namespace is a twin: it runs
// there, so it counts, also beyond what is granted.
func (r *REST) Attribute(ctx context.Context, pod types.NamespacedName) error {
	consumer, twin, err := r.twinOf(ctx, pod.Namespace)
	if apierrors.IsNotFound(err) || err == nil && (!twin || consumer == "") {
		return nil
	}
	if err != nil {
		return err
	}
	_, _, err = r.status.Update(genericapirequest.WithNamespace(ctx, pod.Namespace), pod.Name, rest.DefaultUpdatedObjectInfo(nil, func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
		changed := old.DeepCopyObject().(*federation.ShadowPod)
		if changed.Status.ForeignCluster == "" {
			changed.Status.ForeignCluster = consumer
		}
		return changed, nil
	}), rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// Create stores a shadow pod if its consumer was granted enough.
func (r *REST) Create(ctx context.Context, obj runtime.Object, createValidation rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, ledger.CreateTimeout)
	defer cancel()
	creation, err := r.begin(ctx, dryrun.IsDryRun(options.DryRun), createValidation)
	if err != nil {
		return nil, err
	}
	created, err := r.REST.Create(creation.context(ctx), obj, creation.reserve, options)
	creation.End(created, err)
	return created, err
}

// Update changes a shadow pod, if its consumer was granted what it takes more.
// Apply may create one.
func (r *REST) Update(ctx context.Context, name string, objInfo rest.UpdatedObjectInfo, createValidation rest.ValidateObjectFunc, updateValidation rest.ValidateObjectUpdateFunc, forceAllowCreate bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, ledger.CreateTimeout)
	defer cancel()
	creation := &creation{Creation: r.grants.Begin(dryrun.IsDryRun(options.DryRun)), validation: createValidation}
	if forceAllowCreate {
		var err error
		if creation, err = r.begin(ctx, dryrun.IsDryRun(options.DryRun), createValidation); err != nil {
			return nil, false, err
		}
	}
	updated, created, err := r.REST.Update(creation.context(ctx), name, objInfo, creation.reserve, r.grow(creation, updateValidation), forceAllowCreate, options)
	creation.End(updated, err)
	return updated, created, err
}

// grow has room reserved for what a shadow pod takes more, as the last before it
// is stored.
func (r *REST) grow(c *creation, validation rest.ValidateObjectUpdateFunc) rest.ValidateObjectUpdateFunc {
	return func(ctx context.Context, obj, old runtime.Object) error {
		c.Drop()
		if validation != nil {
			if err := validation(ctx, obj, old); err != nil {
				return err
			}
		}
		pod, before := obj.(*federation.ShadowPod), old.(*federation.ShadowPod)
		if pod.Generation == before.Generation || before.Status.Phase != "" {
			return nil
		}
		more := quota.More(grants.Takes(before), grants.Takes(pod))
		if len(more) == 0 {
			return nil
		}
		if before.Status.ForeignCluster == "" {
			return r.uncounted(ctx, pod)
		}
		_, err := c.Grow(ctx, before.Status.ForeignCluster, before, more)
		return refusal(pod.Name, err)
	}
}

// uncounted refuses that a shadow pod takes more that has not been found yet to
// be a consumer's, see Attribute. Where nothing runs it may.
func (r *REST) uncounted(ctx context.Context, pod *federation.ShadowPod) error {
	_, twin, err := r.twinOf(ctx, pod.Namespace)
	if err != nil || !twin {
		return err
	}
	return apierrors.NewForbidden(federation.Resource("shadowpods"), pod.Name, errors.New("it is not known yet which consumer it counts against: try again in a minute"))
}

// creation is one request that may create a shadow pod, or have one take more.
type creation struct {
	*grants.Creation
	consumer   string
	twin       bool
	validation rest.ValidateObjectFunc
}

func (r *REST) begin(ctx context.Context, dry bool, validation rest.ValidateObjectFunc) (*creation, error) {
	consumer, twin, err := r.twinOf(ctx, genericapirequest.NamespaceValue(ctx))
	if err != nil {
		return nil, err
	}
	return &creation{Creation: r.grants.Begin(dry), consumer: consumer, twin: twin, validation: validation}, nil
}

// reserve is the last that is asked before a shadow pod is stored.
func (c *creation) reserve(ctx context.Context, obj runtime.Object) error {
	if c.validation != nil {
		if err := c.validation(ctx, obj); err != nil {
			return err
		}
	}
	if !c.twin {
		return nil
	}
	pod, ok := obj.(*federation.ShadowPod)
	if !ok {
		return apierrors.NewBadRequest(fmt.Sprintf("a ShadowPod is expected here, not a %T", obj))
	}
	if c.consumer == "" {
		return apierrors.NewForbidden(federation.Resource("shadowpods"), pod.Name, fmt.Errorf("its namespace does not say which consumer it is the twin of, in the label %s", v1alpha1.LabelForeignCluster))
	}
	_, err := c.Reserve(ctx, c.consumer, pod.UID, quota.Requests(&pod.Spec.Pod))
	return refusal(pod.Name, err)
}

// refusal makes an answer of what the grants say: 403, as of a quota, with a
// cause for each resource that is short, or one for the finished. After 429 clients would wait and try
// again by themselves, and nobody would be told.
func refusal(name string, err error) error {
	var exceeded *grants.ErrExceeded
	var finished *grants.ErrTooManyFinished
	if !errors.As(err, &exceeded) && !errors.As(err, &finished) {
		return err
	}
	answer := apierrors.NewForbidden(federation.Resource("shadowpods"), name, err)
	if finished != nil {
		answer.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: v1alpha1.CauseTooManyFinished, Message: finished.Error()}}
		return answer
	}
	for _, short := range exceeded.Short {
		answer.ErrStatus.Details.Causes = append(answer.ErrStatus.Details.Causes, metav1.StatusCause{
			Type: v1alpha1.CauseGrantExceeded, Field: string(short.Resource), Message: short.String(),
		})
	}
	return answer
}

type consumerKey struct{}

// context carries whose the shadow pod will be to the strategy.
func (c *creation) context(ctx context.Context) context.Context {
	if !c.twin {
		return ctx
	}
	return context.WithValue(ctx, consumerKey{}, c.consumer)
}

var (
	_ rest.Creater = &REST{}
	_ rest.Updater = &REST{}
	_ grants.Pods  = &REST{}
)
