"""The checks of the site's pages that its generator doesn't have."""

import website


def test_a_page_that_the_navigation_does_not_name_is_found() -> None:
    navigation = [{"Start": ["README.md", {"Installing": "guide/installing.md"}]}]
    pages = ["README.md", "decisions/0001-a.md", "guide/installing.md", "guide/redis.md"]
    assert website.unlisted(navigation, pages) == ["guide/redis.md"]


def test_a_page_that_fetches_from_another_host_is_found() -> None:
    links = '<a href="https://example.org">a</a> <img src="b.svg"> <script>"//c"</script>'
    assert website.fetched(links) == []
    fetching = '<link rel=x href="https://a/b.css"> <script async src=//c/d.js></script>'
    assert website.fetched(links + fetching) == ["https://a/b.css", "//c/d.js"]


def test_a_picture_without_a_text_is_found() -> None:
    pictures = '<img src="a.svg" alt="Throughput"> <img alt=Rate src="b.svg">'
    assert website.textless(pictures) == []
    empty = '<img alt="" src="c.svg">'
    assert website.textless(f'{pictures} <img src="d.svg"> {empty}') == [
        '<img src="d.svg">',
        empty,
    ]
